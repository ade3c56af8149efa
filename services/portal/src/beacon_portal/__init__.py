"""The web portal: static HTML, ES modules and CSS."""

from beacon_portal.app import portal_app, portal_routes

__all__ = ["portal_app", "portal_routes"]
