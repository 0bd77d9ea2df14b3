"""`/docs`: Swagger UI shows the calls of this service and sends them, and asks nobody else."""

import uuid

from playwright.sync_api import Page, expect


def test_should_show_and_send_a_call(page: Page, origin: str) -> None:
    page.goto(f"{origin}/docs")
    call = page.locator("#operations-service-show_version")

    call.locator(".opblock-summary-control").click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()

    expect(call.locator(".live-responses-table .response-col_status").last).to_have_text("200")
    expect(call.locator(".live-responses-table")).to_contain_text("kafka_version")


def test_should_offer_a_body_that_the_service_takes(page: Page, origin: str) -> None:
    page.goto(f"{origin}/docs")
    call = page.locator("#operations-groups-declare_group")

    call.locator(".opblock-summary-control").click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_placeholder("group").fill(f"words-{uuid.uuid4().hex[:12]}")
    call.get_by_role("button", name="Execute").click()

    expect(call.locator(".live-responses-table .response-col_status").last).to_have_text("201")
