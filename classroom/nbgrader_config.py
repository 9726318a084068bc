"""For those who call nbgrader themselves: copy this file into the course's folder."""

c = get_config()  # noqa: F821

# An unwritten answer must run: `classroom.feedback` then says "not yet".
c.ClearSolutions.code_stub = {"python": "...  # your code"}
# Endless loops end after 30 s. There is no limit on memory: `make grade` has one.
c.Execute.timeout = 30
