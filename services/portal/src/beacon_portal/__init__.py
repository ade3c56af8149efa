"""The web portal: static HTML, ES modules and CSS."""
