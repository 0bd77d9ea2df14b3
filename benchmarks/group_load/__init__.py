"""A group under load: thousands of members over HTTP, beside a real broker with as many, and hostile callers."""
