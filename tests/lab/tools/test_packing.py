"""What is packed comes out again, as the page unpacks it."""

import base64
import gzip

import numpy as np

from gradline.lab.tools.packing import BITS, pack_numbers, pack_text, unpack_numbers


def test_numbers_come_back_nearly():
    values = np.random.default_rng(0).normal(size=5000) * 10.0 ** np.arange(-25, 25).repeat(100)
    np.testing.assert_allclose(unpack_numbers(pack_numbers(values)), values, rtol=2.0 ** -(BITS + 1))


def test_small_whole_numbers_and_simple_fractions_come_back_exactly():
    values = np.array([0.0, 1.0, -3.0, 1000.0, 4095.0, 0.25, 0.375])
    np.testing.assert_array_equal(unpack_numbers(pack_numbers(values)), values)


def test_what_is_no_number_stays_none():
    values = np.array([np.nan, np.inf, -np.inf, 1e300])
    np.testing.assert_array_equal(unpack_numbers(pack_numbers(values)), [np.nan, np.inf, -np.inf, np.inf])


def test_texts_come_back():
    assert gzip.decompress(base64.b64decode(pack_text("α </script>"))).decode() == "α </script>"
    assert "<" not in pack_text("</script>")


def test_the_same_is_packed_the_same():
    assert pack_text("a" * 100) == pack_text("a" * 100)
