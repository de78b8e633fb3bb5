"""The rule that says whether a series is flat.

A line is the points of one life of a process. A restart begins a new line, so its lower values are no fall, and the rise
after it is no leak. Points of different lines are never compared.

The slope is Theil and Sen's: the median of the slopes of all pairs of points. A few outliers do not move it.
The growth is the slope times the seconds that the lines last together.
A series is not flat if its growth exceeds its bound, and most pairs rise. Noise rises in half of the pairs.
"""
import dataclasses
import itertools
import statistics

MOST_POINTS = 400  # of all lines. More are joined: each group of neighbours becomes its median
FEWEST_POINTS = 8  # a rule over fewer would be chance
RISING = 0.7  # of the pairs whose values differ


@dataclasses.dataclass(frozen=True)
class Bound:
    """The growth that is allowed: the larger one of both."""
    absolute: float
    share: float = 0  # of the value at the begin

    def of(self, begin):
        return max(self.absolute, self.share * begin)


@dataclasses.dataclass(frozen=True)
class Verdict:
    points: int
    median: float = 0
    growth: float = 0
    bound: float = 0
    rising: float = 0

    @property
    def enough(self):
        return self.points >= FEWEST_POINTS

    @property
    def flat(self):
        return not self.enough or self.growth <= self.bound or self.rising < RISING


def judge(lines, bound):
    """`lines`: lists of (second, value)."""
    lines = [line for line in lines if len(line) > 1]
    points = sum(map(len, lines))
    if points < FEWEST_POINTS:
        return Verdict(points)
    joined = [line for line in (thin(line, -(-points // MOST_POINTS)) for line in lines) if len(line) > 1]
    slopes = [(late[1] - early[1]) / (late[0] - early[0])
              for line in joined for early, late in itertools.combinations(line, 2) if late[0] > early[0]]
    seconds = sum(line[-1][0] - line[0][0] for line in lines)
    median = statistics.median(value for line in lines for _, value in line)
    different = [slope for slope in slopes if slope]
    rising = sum(slope > 0 for slope in different) / len(different) if different else 0
    growth = statistics.median(slopes) * seconds if slopes else 0
    return Verdict(points, median, growth, bound.of(median - growth / 2), rising)


def thin(line, group):
    """The median of each group of neighbours."""
    groups = [line[at:at + group] for at in range(0, len(line), group)]
    return [(statistics.median(second for second, _ in one), statistics.median(value for _, value in one)) for one in groups]
