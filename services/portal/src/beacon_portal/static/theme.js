// Runs before the first paint, so that the chosen theme is used from the start.
try {
  const theme = localStorage.getItem("beacon.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the theme of the system is used.
}
