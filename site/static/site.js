// What is wider than the page scrolls, also by keyboard.
addEventListener("load", () => {
  for (const box of document.querySelectorAll("pre, div.math, .table-wrapper, .cgviz-sheet")) {
    const { clientHeight, clientWidth, scrollHeight, scrollWidth } = box;
    if (scrollWidth > clientWidth || scrollHeight > clientHeight) box.tabIndex = 0;
  }
});
