// When a folded part is opened, the theme must look again for code that scrolls, so that the
// keyboard can reach it. It does so when the window is resized.
document.addEventListener("click", (event) => {
  if (event.target.closest("summary, .toggle")) window.dispatchEvent(new Event("resize"));
});
