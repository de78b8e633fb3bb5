"""The result of a run: a table, a plot and the verdict on each series."""
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from samples import MIB  # noqa: E402


def write_table(samples, path):
    """A row for each sample. A field is empty if the process did not run."""
    with open(path, "w", encoding="utf-8") as file:
        programs = list(samples.rows[0].lives)
        print("second", "calm", *(f"{name}_pid" for name in programs), *(series.name for series in samples.series()), sep="\t", file=file)
        for row in samples.rows:
            pids = (",".join(map(str, row.lives[name])) for name in programs)
            values = (row.values.get(series.name, "") for series in samples.series())
            print(f"{row.second:.1f}", f"{row.calm:.1f}", *pids,
                  *(f"{value:.2f}" if isinstance(value, float) else value for value in values), sep="\t", file=file)


def write_plot(samples, verdicts, calm_seconds, path):
    """All samples are grey. The rule looks at the coloured ones: green lines are flat, red ones are not."""
    figure, places = pyplot.subplots(len(verdicts), sharex=True, figsize=(10, 2 * len(verdicts)), layout="constrained")
    for place, series in zip(places, verdicts):
        scale = MIB if series.unit == "bytes" else 1
        known = [(row.second, row.values[series.name] / scale) for row in samples.rows if series.name in row.values]
        place.plot([second for second, _ in known], [value for _, value in known], ".", color="lightgrey")
        for line in samples.lines(series, calm_seconds):
            place.plot([second for second, _ in line], [value / scale for _, value in line], ".-",
                       color="green" if verdicts[series].flat else "red")
        place.set_ylabel(f"{series.name}\n{'MiB' if series.unit == 'bytes' else series.unit}")
        place.set_ylim(bottom=0)
        place.grid(True)
    places[-1].set_xlabel("seconds")
    figure.savefig(path)
    pyplot.close(figure)


def show(series, verdict):
    if not verdict.enough:
        return f"  {series.name:20} only {verdict.points} points: not judged"
    return (f"  {series.name:20} {'flat' if verdict.flat else 'GROWS'}: median {series.show(verdict.median)}, "
            f"growth {series.show(verdict.growth)} of {series.show(verdict.bound)} allowed, "
            f"{verdict.rising:.0%} of the pairs rise, {verdict.points} points")
