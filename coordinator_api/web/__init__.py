"""The web page: an operator looks instead of reading. Served at `/ui` by the coordinator itself.

    request -> routes (fetch documents, as `/v1` answers them) -> views (pure: documents to values) -> templates

A page shows, says what to do, and stays right: its live part (`NAME_live.html`) is fetched again when the server says
over an event stream that its digest is another one now. Nothing is kept in the page. Without JavaScript every page can
be read, every link followed and every form sent.

To add a view: an address in `http/call_rights.py`, a route in `routes/`, values in `views/`, two templates; styles and
scripts are files in `static/`, which has no folders.
"""
