"""What this site adds to Sphinx: pages that are made from the code when the site is built (`generated_pages`)."""
