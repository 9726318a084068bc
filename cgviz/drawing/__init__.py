"""A trace on paper: what is shown, where it stands, how it is inked."""
