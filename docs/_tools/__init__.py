"""Tools of the checkout that `make audit` and the page docs/how-to/install.md use."""
