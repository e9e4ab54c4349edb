"""What tests of pages share: a headless Chromium that opens files, and what it says of errors and requests."""

import json
import shutil
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

PLACES = ("chromium", "chromium-browser", "google-chrome")
# A machine without a GPU draws by SwiftShader; the others keep the browser from calling home.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
WEBGL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
NO_WEBGL = ("--disable-gpu", "--disable-3d-apis", "--disable-software-rasterizer")
PATIENCE = 20  # seconds


def needs_a_browser():
    """Skip a test where selenium, a Chromium or its driver is missing."""
    if not find_spec("selenium"):
        pytest.skip("selenium is not installed; pip install 'procrustes-kge[browser]' brings it")
    if not any(map(shutil.which, PLACES)) or not shutil.which("chromedriver"):
        pytest.skip("there is no Chromium with its chromedriver here")


@contextmanager
def browsing(profile, webgl=True, dark=False, width=1200, height=800):
    """Give a browser with a profile of its own in a fresh folder."""
    needs_a_browser()
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = next(filter(None, map(shutil.which, PLACES)))
    for flag in (*FLAGS, *(WEBGL if webgl else NO_WEBGL), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        resized(driver, width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        features.append({"name": "prefers-reduced-motion", "value": "reduce"})  # flights end at once
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield driver
    finally:
        driver.quit()


def resized(driver, width, height, touch=False):
    """Show a page as a screen of so many pixels does; windows are never as narrow as a phone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch, "maxTouchPoints": 2})


def opened(driver, path):
    """Open a file, forgetting what was said before."""
    said(driver)
    requests(driver)
    driver.get(Path(path).resolve().as_uri())
    return driver


def said(driver):
    """Return what the console has said since it was last asked: errors, warnings, and what a policy refused."""
    return [f"{each['level']}: {each['message']}" for each in driver.get_log("browser")]


def requests(driver):
    """Return the addresses that were asked for since this was last asked."""
    messages = (json.loads(each["message"])["message"] for each in driver.get_log("performance"))
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]


def eventually(call, patience=PATIENCE):
    """Return what a call returns as soon as that is true of it; fail with what it last returned."""
    end = time.monotonic() + patience
    while not (found := call()):
        assert time.monotonic() < end, f"still {found!r}"
        time.sleep(0.05)
    return found


def screenshot(driver, path):
    """Write what the page shows."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    assert driver.save_screenshot(str(path))
