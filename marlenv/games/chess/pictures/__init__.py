"""Chess boards as characters, SVG and pixels."""
