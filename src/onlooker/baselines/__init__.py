"""Other people's libraries as they are, run on our models and data: what our own methods are measured by."""
