"""The page in a real browser, as an operator opens it. `make browser` installs the browser.

`chromium`: where it is, and how it starts. `watched`: what a page must not do while a test looks at it. `keyboard`:
an operator without a mouse. `accessibility`: what axe-core finds.
"""
