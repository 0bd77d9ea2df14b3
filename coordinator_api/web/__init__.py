"""The web page for operators, served at `/ui` by the coordinator itself.

    request -> a page's file (reads the documents that `/v1` answers, and makes values of them) -> templates

`coordinator_api/views.py` has the wording of facts that the terminal prints too.

A page stays up to date: when the server reports over an event stream that the digest of the page has changed, the page
fetches its live part (`NAME_live.html`) again. A page stores no data of groups. All pages, links and forms also work
without JavaScript.

To add a page: add its address to `http/call_rights.py`, a file `NAME_page.py` with its route, the file's name to
`pages.py`, and two templates. Styles and scripts are files in `static/`, which has no folders.
"""
