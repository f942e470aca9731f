"""A figure as a notebook keeps it: to be zoomed where scripts run, a picture elsewhere, with nothing to be loaded."""

import base64
import json
import uuid
from typing import Any

from plotly.graph_objects import Figure
from plotly.io import renderers

from hpo.report.pages.html import render
from hpo.report.pages.picture import draw_png


class NotebookFigure(Figure):  # type: ignore[misc]  # plotly has no types
    """A plotly figure that an exported notebook shows, too; plotly's own is empty there, or wants a Chrome."""

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return it in plotly's type, as a page of its own, and as a picture if it is of lines, dots and bars."""
        png = draw_png(self)
        picture = {} if png is None else {"image/png": base64.b64encode(png).decode()}
        page = render("notebook.html", figure=self, place=f"figure-{uuid.uuid4()}", png=picture.get("image/png"))
        return {"application/vnd.plotly.v1+json": json.loads(self.to_json()), "text/html": page, **picture}

    def _ipython_display_(self) -> None:
        """Show it in the output of a cell; from a terminal, in the browser."""
        from IPython.display import display

        if renderers.default == "browser":
            super()._ipython_display_()
        else:
            display(self._repr_mimebundle_(), raw=True)
