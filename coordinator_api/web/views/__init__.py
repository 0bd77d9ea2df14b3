"""What pages show, as values made of documents. Pure: no HTTP, no clock, no templates."""
