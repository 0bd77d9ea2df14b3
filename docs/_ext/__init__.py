"""Extensions of Sphinx for this site: pages that are generated from the code when the site is built
(`generated_pages`).
"""
