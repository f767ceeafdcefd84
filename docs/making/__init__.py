"""What the site is made with: pages that follow from the configuration and from the code."""
