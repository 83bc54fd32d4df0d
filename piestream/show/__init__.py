"""What a query does, for people to read: explanations, diagrams, tables of results.

>>> import piestream as ps
>>> q = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9")
>>> print(explain(q).section("Constraints"))
a meets b
  automaton of 3 states; partners by the pair index
  meets: decided at b.ts = a.te
"""

from piestream.show.explain import Explanation, explain
from piestream.show.exports import ExportFormat, export

__all__ = ["Explanation", "ExportFormat", "explain", "export"]
