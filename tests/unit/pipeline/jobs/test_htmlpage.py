"""Pages: what is escaped, what a column sorts by."""

import unittest

from hatwisted.pipeline.jobs.htmlpage import Cell, Tile, document, figure, table, tiles, warning


class TestPage(unittest.TestCase):
    def test_names_out_of_a_log_are_text(self):
        evil = "<script>&\"'"
        page = document(
            evil,
            "under",
            [
                ("", tiles([Tile(evil, evil, evil)]) + warning(evil)),
                (evil, figure(evil, evil, "<svg/>", True) + table([evil], [[evil]], 1, evil)),
            ],
            "foot",
        )
        self.assertEqual(page.count("<script>"), 1)
        self.assertEqual(page.count("&lt;script&gt;&amp;&quot;&#x27;"), 13)

    def test_names_turn_no_text_around_and_hide_nothing(self):
        evil = "T\x7f\x9b2J\u202eevil\u2066\u200b\u2028"
        page = document(evil, "", [(evil, warning(evil) + table([evil], [[evil]], 1, evil))], "")
        self.assertEqual(page.count("T\\x7f\\x9b2J\\u202eevil\\u2066\\u200b\\u2028"), 8)
        self.assertTrue(page.replace("\n", "").isprintable())
        self.assertIn("first\nsecond", warning("first\nsecond"))

    def test_a_cell_sorts_by_its_value(self):
        html = table(["a", "b"], [["x", Cell("1.8 T", 1_795_221_192_756)], ["y", Cell("–")]], 1)
        self.assertIn('<td data-value="1795221192756">1.8 T</td>', html)
        self.assertIn('<td class="text" style="min-width:3ch">x</td>', html)
        self.assertIn("<td>–</td>", html)

    def test_parts_with_a_heading_are_linked(self):
        page = document("t", "", [("", "first"), ("Plots", "second")], "")
        self.assertIn('<a href="#part-1">Plots</a>', page)
        self.assertIn('<h2 id="part-1">Plots</h2>second', page)
        self.assertNotIn("part-0", page)
