/** Light or dark: as the system has it, until the user says otherwise. */

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
