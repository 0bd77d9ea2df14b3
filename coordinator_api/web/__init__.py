"""The web page for operators, served at `/ui` by the coordinator itself.

    request -> a page's file (fetches documents, as `/v1` answers them, and makes values of them) -> templates

Facts that the terminal prints too are worded in `coordinator_api/views.py`.

A page stays up to date: its live part (`NAME_live.html`) is fetched again when the server reports over an event stream
that its digest is another one now. Nothing is kept in the page. Without JavaScript every page can
be read, every link followed and every form sent.

To add a page: an address in `http/call_rights.py`, a file `NAME_page.py` with its route, named in `pages.py`, and two
templates; styles and scripts are files in `static/`, which has no folders.
"""
