"""One short file for each published method, readable alone, the paper's symbols beside ours."""
