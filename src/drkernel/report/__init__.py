"""Numbers as text, Markdown, CSV, figures and pages. Data first: every figure has its CSV."""
