"""The routing tables of the API and of the dashboard are complete and unambiguous."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from scheduled_actions.web import api, dashboard
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES


@pytest.mark.parametrize(("package", "name", "table"), [(api, "ROUTES", ROUTES), (dashboard, "PAGES", PAGES)])
def test_every_declared_route_is_in_the_table(package, name, table):
    modules = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    declared = {module: getattr(importlib.import_module(module), name, ()) for module in modules}

    missing = {module: [one.path for one in routes if one not in table] for module, routes in declared.items()}

    assert sum(bool(routes) for routes in declared.values()) > 5
    assert {module: paths for module, paths in missing.items() if paths} == {}


@pytest.mark.parametrize("table", [ROUTES, PAGES])
def test_no_method_and_path_are_declared_twice(table):
    addresses = [(one.method, one.path) for one in table]

    assert sorted(addresses) == sorted(set(addresses))


def test_a_route_with_a_name_in_its_path_documents_its_404():
    assert [f"{one.method} {one.path}" for one in ROUTES if "{" in one.path and not one.refuses] == []
