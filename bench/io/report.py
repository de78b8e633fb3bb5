"""A table in Markdown and a plot in SVG, both of ratios to a plain file on the same filesystem."""
import collections
import os
import statistics

COLOURS = {"image": "#1f77b4", "block": "#17becf", "loop": "#7f7f7f", "directory": "#2ca02c", "subvolume": "#ff7f0e",
           "sized": "#9467bd"}
LEFT, WIDTH, LINE, MOST = 300, 480, 14, 1.6  # the plot: pixels, and the ratio at its right edge


def spread(values):
    low, high = min(values), max(values)
    return f"{statistics.median(values) * 100:.0f} % ({low * 100:.0f}–{high * 100:.0f})"


class Report:
    def __init__(self, kinds, rows, options):
        self.kinds, self.rows, self.options = kinds, rows, options
        self.rates = collections.defaultdict(list)  # (row, path): a value for each round
        self.costs = collections.defaultdict(list)

    def add(self, row, path, rate, cost):
        self.rates[row.name, path].append(rate)
        self.costs[row.name, path].append(cost)

    def ratios(self, values, row, kind):
        """A ratio for each round, because the noise of a round is the same for both."""
        path, beside = self.kinds[kind]
        return [one / max(other, 1e-9) for one, other in zip(values[row.name, path], values[row.name, beside])]

    def table(self):
        lines = []
        for beside in dict.fromkeys(beside for _, beside in self.kinds.values()):
            kinds = [kind for kind, (_, other) in self.kinds.items() if other == beside]
            lines += [f"| | plain file, operations/s | {' | '.join(kinds)} | its processor time, µs | "
                      f"{' | '.join(f'{kind}, more' for kind in kinds)} |", "|---" * (2 * len(kinds) + 3) + "|"]
            for row in self.rows:
                rate = statistics.median(self.rates[row.name, beside])
                cost = statistics.median(self.costs[row.name, beside])
                rates = [spread(self.ratios(self.rates, row, kind)) for kind in kinds]
                costs = [f"{statistics.median(self.costs[row.name, self.kinds[kind][0]]) - cost:+.0f}" for kind in kinds]
                lines.append(f"| {row.name} | {rate:,.0f} | {' | '.join(rates)} | {cost:.0f} | {' | '.join(costs)} |")
            lines.append("")
        return "\n".join(lines)

    def plot(self):
        """A line for each row and kind from the lowest to the highest ratio, with a dot at the median."""
        def at(ratio):
            return LEFT + WIDTH * min(ratio, MOST) / MOST

        parts, y = [], 40
        for row in self.rows:
            parts.append(f'<text x="4" y="{y + 4}">{row.name}</text>')
            for kind in self.kinds:
                ratios = self.ratios(self.rates, row, kind)
                parts.append(f'<line x1="{at(min(ratios)):.1f}" x2="{at(max(ratios)):.1f}" y1="{y}" y2="{y}" '
                             f'stroke="{COLOURS[kind]}" stroke-width="2"/>'
                             f'<circle cx="{at(statistics.median(ratios)):.1f}" cy="{y}" r="4" fill="{COLOURS[kind]}"/>')
                y += LINE // 2
            y += LINE
        marks = "".join(f'<line x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="26" y2="{y}" stroke="#ccc"/>'
                        f'<text x="{at(mark) - 14:.1f}" y="22">{mark * 100:.0f} %</text>' for mark in (0, 0.5, 1, 1.5))
        legend = "".join(f'<text x="{LEFT + 84 * i}" y="{y + 16}" fill="{COLOURS[kind]}">{kind}</text>'
                         for i, kind in enumerate(self.kinds))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{y + 26}" '
                f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
                f'{marks}{"".join(parts)}{legend}</svg>\n')

    def write(self, output):
        os.makedirs(output, exist_ok=True)
        for name, text in (("io.md", self.table()), ("io.svg", self.plot())):
            with open(f"{output}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        print(self.table())
        print(f"{output}/io.md and io.svg, {self.options.rounds} rounds of {self.options.seconds:g} s each")
