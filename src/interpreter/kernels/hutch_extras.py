"""What hutch adds to a Python kernel (guest.md 7.7): a DataFrame's columns, a figure's chart, JSON of lists and dicts, images that are shown
or saved. No library is imported here; a part acts only on objects of a library that a cell has imported."""

import datetime
import enum
import math
import re
import sys
import uuid


# ---- JSON ----

def plain(o):
    """o as JSON has it; TypeError when it is nothing of that kind."""
    if o is None or isinstance(o, (str, bool)):
        return o
    if isinstance(o, enum.Enum):
        return plain(o.value)
    if isinstance(o, int):
        return int(o)
    if isinstance(o, float):
        return float(o) if math.isfinite(o) else None
    if isinstance(o, dict):
        return {k if isinstance(k, str) else key_text(k): plain(v) for k, v in o.items()}
    if isinstance(o, (list, tuple)):
        return [plain(v) for v in o]
    if isinstance(o, (datetime.date, datetime.time)):
        return o.isoformat()
    if isinstance(o, uuid.UUID):
        return str(o)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(o, (numpy.generic, numpy.ndarray)):
        if o.dtype.kind in "biuf":
            return plain(o.tolist())
        if o.dtype.kind == "M":
            return numpy.datetime_as_string(o).tolist()
    raise TypeError(type(o).__name__)


def key_text(k):
    k = plain(k)
    if isinstance(k, (dict, list)):
        raise TypeError("key")
    return {None: "null", True: "true", False: "false"}[k] if k is None or isinstance(k, bool) else str(k)


def json_of(o):
    if type(o) in (dict, list) or isinstance(o, (dict, list)):
        try:
            return plain(o), {"expanded": True}
        except (TypeError, RecursionError):
            pass
    return None


# ---- data frames ----

def data_of(o):
    pandas = sys.modules.get("pandas")
    frame = getattr(pandas, "DataFrame", None)
    if frame is None or not isinstance(o, frame):
        return None
    missing = (pandas.NaT, getattr(pandas, "NA", pandas.NaT))

    def or_text(value_of, v):
        try:
            return value_of(v)
        except (TypeError, RecursionError):
            return str(v)

    def cell(v):
        return None if any(v is m for m in missing) else or_text(plain, v)
    # by place: names may be there twice, and then the last one counts
    return {or_text(key_text, k): [cell(v) for v in o.iloc[:, i].tolist()] for i, k in enumerate(o.columns)}


# ---- charts ----

UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def rounded(x):
    """Without the noise of computing: nine digits of what is below ten, fewer of more."""
    x = float(x)
    if x == 0 or not math.isfinite(x):
        return x
    return float("%.*g" % (max(1, 8 - math.floor(math.log10(abs(x)))), x))


def text_or_none(s):
    return s if s != "" else None


def unit_of(label):
    found = UNIT.search(label or "")
    return (found.group(1) or found.group(2)) if found else None


def labels(ax):
    x, y = text_or_none(ax.get_xlabel()), text_or_none(ax.get_ylabel())
    return {"x_label": x, "y_label": y, "x_unit": unit_of(x), "y_unit": unit_of(y)}


def swapped(chart):
    for what in ("label", "unit"):
        chart["x_" + what], chart["y_" + what] = chart["y_" + what], chart["x_" + what]


def tick_texts(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


def is_date_axis(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return type(converter).__name__ in ("_SwitchableDateConverter", "DateConverter", "ConciseDateConverter")


def scale_of(axis, ticks, texts):
    if is_date_axis(axis):
        return "datetime"
    name = axis.get_scale()
    if name != "linear":
        return name
    counted = all(tick == i and text != str(i) for i, (tick, text) in enumerate(zip(ticks, texts)))
    return "categorical" if counted else "linear"


def axis_info(axis, letter):
    texts, places = tick_texts(axis), axis.get_ticklocs()
    if is_date_axis(axis):
        from matplotlib.dates import num2date
        ticks = [num2date(t).isoformat() for t in places]
    else:
        ticks = [float(t) for t in places]
    return {letter + "_ticks": ticks, letter + "_tick_labels": texts, letter + "_scale": scale_of(axis, ticks, texts)}


def coordinate(v):
    numpy = sys.modules["numpy"]
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, numpy.datetime64):
        return str(v.astype("datetime64[s]"))
    return str(v) if isinstance(v, str) else float(v)


def points_of(pairs):
    return [[coordinate(x), coordinate(y)] for x, y in pairs]


def is_straight(line):
    """A line along an axis between two points: a grid line, as one draws it by hand."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def numbered(label, prefix, word):
    return "%s %d" % (word, int(label[len(prefix):])) if re.fullmatch(re.escape(prefix) + r"\d+", label) else label


def plane(ax):
    return {**labels(ax), **axis_info(ax.xaxis, "x"), **axis_info(ax.yaxis, "y")}


def line_chart(ax):
    rows = [{"label": numbered(line.get_label(), "_child", "Line"), "points": points_of(zip(line.get_xdata(), line.get_ydata()))}
            for line in ax.get_lines() if not is_straight(line)]
    return {**plane(ax), "elements": rows}


def scatter_chart(ax):
    return {**plane(ax), "elements": [{"label": c.get_label(), "points": points_of(c.get_offsets())} for c in ax.collections]}


def bar_chart(ax):
    chart, rows = labels(ax), []
    for bars in ax.containers:
        group = numbered(bars.get_label(), "_container", "Group")
        values = [bar.get_height() for bar in bars]
        names = tick_texts(ax.xaxis)
        if all(v == values[0] for v in values):         # drawn to the right
            swapped(chart)
            names, values = tick_texts(ax.yaxis), [bar.get_width() for bar in bars]
        rows += [{"label": n, "group": group, "value": float(v)} for n, v in zip(names, values)]
    return {**chart, "elements": rows}


def pie_chart(ax):
    return {"elements": [{"label": w.get_label(), "angle": rounded(abs(w.theta2 - w.theta1)), "radius": float(w.r)} for w in ax.patches]}


class Box:
    """One box: its sides across (where it stands) and along (what it says)."""

    def __init__(self, label, across, along):
        self.label = label
        self.across, self.along = (min(across), max(across)), (min(along), max(along))
        self.median, self.low, self.high, self.outliers = None, self.along[0], self.along[1], []

    def take(self, across, along):
        """What a line of the plot tells of it; False when it is another's."""
        if not all(self.across[0] <= a <= self.across[1] for a in across):
            return False
        lower, upper = min(along), max(along)
        if len(along) == 2 and across[0] == across[1] and upper == self.along[0]:
            self.low = lower
        elif len(along) == 2 and across[0] == across[1] and lower == self.along[1]:
            self.high = upper
        elif len(along) == 2 and lower == upper and self.along[0] <= lower <= self.along[1]:
            self.median = lower
        elif len(along) == 1 or (len(along) > 2 and across[0] == across[-1]):
            self.outliers += along
        return True

    def row(self):
        return {"label": self.label, "min": self.low, "first_quartile": self.along[0], "median": self.median, "third_quartile": self.along[1],
                "max": self.high, "outliers": self.outliers}


def is_lying(ax, corners):
    """Boxes are as wide as one another across. Where they also are along, caps and medians tell: there are more of them than whiskers."""
    wide, tall = ({rounded(max(c[i]) - min(c[i])) for c in corners} for i in (0, 1))
    if (len(wide) == 1) != (len(tall) == 1):
        return len(tall) == 1
    pairs = [line for line in ax.lines if len(line.get_xdata()) == 2]
    return 2 * sum(line.get_xdata()[0] == line.get_xdata()[1] for line in pairs) > len(pairs)


def box_chart(ax):
    corners = [[[rounded(v) for v in side] for side in zip(*box.get_path().vertices)] for box in ax.patches]
    lying, chart = is_lying(ax, corners), labels(ax)
    if lying:
        swapped(chart)
    names = tick_texts(ax.yaxis if lying else ax.xaxis)
    boxes = [Box(n, *(reversed(c) if lying else c)) for n, c in zip(names, corners)]
    for line in ax.lines:
        data = [[rounded(v) for v in side] for side in (line.get_xdata(), line.get_ydata())]
        across, along = reversed(data) if lying else data
        if along:
            any(box.take(across, along) for box in boxes)
    return {**chart, "elements": [box.row() for box in boxes]}


def kind_of(ax):
    from matplotlib import collections, lines, patches, text
    drawn = [a for a in ax.get_children() if a in ax._children and not isinstance(a, text.Text)]

    def only(*kinds):
        return all(isinstance(a, kinds) for a in drawn)
    if only(lines.Line2D):
        return "line", line_chart
    if only(patches.PathPatch, lines.Line2D):
        return "box_and_whisker", box_chart
    drawn = [a for a in drawn if not (isinstance(a, lines.Line2D) and is_straight(a))]
    if only(collections.PathCollection):
        return "scatter", scatter_chart
    if only(patches.Wedge):
        return "pie", pie_chart
    if only(patches.Rectangle):
        return "bar", bar_chart
    return "unknown", lambda _: {"elements": []}


def axes_chart(ax):
    name, extract = kind_of(ax)
    return {"type": name, "title": text_or_none(ax.get_title()), **extract(ax)}


def suptitle(figure):
    if hasattr(figure, "get_suptitle"):
        return figure.get_suptitle()
    return figure._suptitle.get_text() if figure._suptitle is not None else ""


def chart_of(o):
    """A figure's chart; {} for a blank one, or one that cannot be read."""
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if figure is None or not isinstance(o, figure):
        return None
    try:
        if not any(ax.has_data() for ax in o.axes):
            return {}
        if len(o.axes) == 1:
            return plain(axes_chart(o.axes[0]))
        return plain({"type": "superchart", "title": suptitle(o), "elements": [axes_chart(ax) for ax in o.axes]})
    except Exception:
        return {}


# ---- images ----

def show_images(image):
    """PIL: showing an image, or saving it, displays it."""
    from IPython.display import display
    save = image.Image.save

    def show(self, *args, **kw):
        display(self)

    def save_and_show(self, fp, *args, **kw):
        save(self, fp, *args, **kw)
        if isinstance(fp, str) or hasattr(fp, "__fspath__"):
            display(self)
    image.Image.show = show
    image.Image.save = save_and_show


class AfterImport:
    """Calls fn(module) once the module of that name was imported."""

    def __init__(self, name, fn):
        self.name, self.fn = name, fn

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self.fn(module)
        spec.loader.exec_module = exec_module
        return spec


# ---- into the shell ----

def formatter(base, mime, method, value_of):
    from traitlets import ObjectName, Unicode

    class Formatter(base):
        format_type = Unicode(mime)
        print_method = ObjectName(method)
        _return_type = (dict, list, str)

        def __call__(self, o):
            value = value_of(o)
            return value if value is not None else super().__call__(o)
    return Formatter


def install(shell, kernel):
    from IPython.core.formatters import BaseFormatter, JSONFormatter
    known = shell.display_formatter.formatters
    for base, mime, method, value_of in ((BaseFormatter, "e2b/data", "_repr_e2b_data_", data_of), (BaseFormatter, "e2b/chart", "_repr_e2b_chart_", chart_of),
                                         (JSONFormatter, "application/json", "_repr_json_", json_of)):
        known[mime] = formatter(base, mime, method, value_of)(parent=shell.display_formatter)
    sys.meta_path.insert(0, AfterImport("PIL.Image", show_images))
