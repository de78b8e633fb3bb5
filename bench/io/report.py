"""A table in Markdown, and a plot of the ratios in SVG."""
import collections
import os
import statistics

COLOURS = {"image": "#1f77b4", "block": "#17becf", "loop": "#7f7f7f", "directory": "#2ca02c", "subvolume": "#ff7f0e",
           "sized": "#9467bd"}
LEFT, WIDTH, LINE, MOST = 300, 480, 14, 1.6  # the plot: pixels, and the ratio at its right edge


class Report:
    def __init__(self, places, rows, loops):
        self.places, self.rows, self.loops = places, rows, loops
        self.ratios = collections.defaultdict(list)  # [row, kind]: a value for each round
        self.costs = collections.defaultdict(list)
        self.plain = collections.defaultdict(list)  # [row, plain file]

    def add(self, row, kind, measured, plain):
        """Each is a rate and a processor time."""
        self.ratios[row.name, kind].append(measured[0] / plain[0])
        self.costs[row.name, kind].append(measured[1] - plain[1])
        self.plain[row.name, self.places[kind].plain].append(plain)

    def table(self):
        lines = [f"{file}: {'direct I/O' if direct else 'no direct I/O, so the memory of the host takes a part'}"
                 for file, direct in sorted(self.loops.items())] + [""]
        for plain in dict.fromkeys(place.plain for place in self.places.values()):
            kinds = [kind for kind, place in self.places.items() if place.plain == plain]
            extra = " | ".join(f"{kind}: extra processor time, µs" for kind in kinds)
            lines += [f"| | plain file, operations/s | {' | '.join(kinds)} | plain file: processor time, µs | {extra} |",
                      "|---" * (2 * len(kinds) + 3) + "|"]
            for row in self.rows:
                rate, cost = (statistics.median(one[i] for one in self.plain[row.name, plain]) for i in (0, 1))
                ratios = [spread(self.ratios[row.name, kind], lambda ratio: f"{ratio * 100:.0f} %") for kind in kinds]
                costs = [spread(self.costs[row.name, kind], lambda cost: f"{cost:+.0f}") for kind in kinds]
                lines.append(f"| {row.name} | {rate:,.0f} | {' | '.join(ratios)} | {cost:.0f} | {' | '.join(costs)} |")
            lines.append("")
        return "\n".join(lines)

    def plot(self):
        """A line for each row and kind from the lowest to the highest ratio, with a dot at the median."""
        def at(ratio):
            return LEFT + WIDTH * min(ratio, MOST) / MOST

        parts, y = [], 40
        for row in self.rows:
            parts.append(f'<text x="4" y="{y + 4}">{row.name}</text>')
            for kind in self.places:
                ratios = self.ratios[row.name, kind]
                parts.append(f'<line x1="{at(min(ratios)):.1f}" x2="{at(max(ratios)):.1f}" y1="{y}" y2="{y}" '
                             f'stroke="{COLOURS[kind]}" stroke-width="2"/>'
                             f'<circle cx="{at(statistics.median(ratios)):.1f}" cy="{y}" r="4" fill="{COLOURS[kind]}"/>')
                if max(ratios) > MOST:
                    parts.append(f'<text x="{LEFT + WIDTH + 2}" y="{y + 4}">→ {max(ratios) * 100:.0f} %</text>')
                y += LINE // 2
            y += LINE
        marks = "".join(f'<line x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="26" y2="{y}" stroke="#ccc"/>'
                        f'<text x="{at(mark) - 14:.1f}" y="22">{mark * 100:.0f} %</text>' for mark in (0, 0.5, 1, 1.5))
        legend = "".join(f'<text x="{LEFT + 84 * i}" y="{y + 16}" fill="{COLOURS[kind]}">{kind}</text>'
                         for i, kind in enumerate(self.places))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{y + 26}" '
                f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
                f'{marks}{"".join(parts)}{legend}</svg>\n')

    def write(self, output):
        os.makedirs(output, exist_ok=True)
        for name, text in (("io.md", self.table()), ("io.svg", self.plot())):
            with open(f"{output}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        print(self.table())


def spread(values, text):
    """The median, and the lowest and the highest."""
    return f"{text(statistics.median(values))} ({text(min(values))} to {text(max(values))})"
