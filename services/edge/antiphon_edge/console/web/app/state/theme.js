/** Light or dark theme: that of the system, until the user chooses one. */

const KEY = "antiphon.theme";

export function applyTheme() {
  const chosen = localStorage.getItem(KEY);
  if (chosen) document.documentElement.dataset.theme = chosen;
}

export function toggleTheme() {
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  localStorage.setItem(KEY, isDark ? "light" : "dark");
  applyTheme();
}
