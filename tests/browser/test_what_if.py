"""The what-if form, filled in by keyboard alone. `tests/coordinator_api/web/test_what_if_page.py` compares its numbers
with those of the commands.
"""

import re
import uuid

from playwright.sync_api import Page, expect

from tests.browser.few_members import FewMembers
from tests.browser.keyboard import press_on, tab_to
from tests.coordinator_api.service_process import ServiceProcess


def test_should_answer_a_form_filled_in_by_keyboard_alone(page: Page, origin: str, service: ServiceProcess) -> None:
    with service.client() as client:
        group = FewMembers(client, f"asked-{uuid.uuid4().hex[:8]}").declare(partitions=6).join(1).join(1)
        page.goto(f"{origin}/ui/groups/{group.id}/what-if")
        for field, value in {"add": "2x2", "standbys": "1"}.items():
            tab_to(page, page.locator(f"#{field}"))
            page.keyboard.type(value)
        press_on(page, page.get_by_role("button", name="Compute"))

        expect(page.get_by_role("heading", name="The forecast")).to_be_visible()
        expect(page).to_have_url(re.compile(r"add=2x2.*standbys=1"))
        expect(page.locator("#add")).to_have_value("2x2")
        assert page.locator(".picture title").count() == page.locator("#rounds tbody tr").count() > 0
        group.remove()
