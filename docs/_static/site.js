// The buttons that open a part of the table of contents have no words: name them after the page beside them.
for (const button of document.querySelectorAll("nav details > summary")) {
  button.ariaLabel = "Pages below " + button.closest("li").querySelector("a").textContent;
}
