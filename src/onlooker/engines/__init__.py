"""Where clients run. None of the engines knows a method by name."""
