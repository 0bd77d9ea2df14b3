"""The web pages for operators, which the coordinator itself serves at `/ui`.

The file of a page reads the documents that calls below `/v1` also return. It converts these documents to values, and
renders a template.

`coordinator_api/views.py` makes the texts that both the pages and the commands show.

An open page stays up to date. When the content of the page has changed, the server reports a new digest over an event
stream. The page then fetches its live part (`NAME_live.html`) again. A page stores no data of groups. All pages, links
and forms also work without JavaScript.

To add a page, write a file `NAME_page.py` with the page's route, and two templates. Also add the page's address to
`http/call_rights.py`, and the name of the file to `pages.py`. Styles and scripts are files in `static/`, which has no
folders.
"""
