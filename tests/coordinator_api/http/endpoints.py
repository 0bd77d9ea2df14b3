"""The calls of the service by method and address, as tests compare them."""

from coordinator_api.http.call_rights import ENDPOINTS, is_page

RIGHTS = {(each.method, each.route): each.right for each in ENDPOINTS if not is_page(each.route)}
PAGE_RIGHTS = {(each.method, each.route): each.right for each in ENDPOINTS if is_page(each.route)}
AUDITED = {(each.method, each.route) for each in ENDPOINTS if each.is_audited}
