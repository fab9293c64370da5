"""What people look at: pages rendered here, with their own style, script and charts, and nothing from elsewhere.

`queries` reads what a page shows, `templates` says it, `charts` places numbers; what people decide goes to other rooms.
"""

from tidegate_pipelines.hub.pages.routes import add_pages

__all__ = ["add_pages"]
