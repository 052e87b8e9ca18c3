import pytest

from metricsbridge.metrics import METRICS, VENDOR_PREFIX, Metric, is_metric_name, vendor_metric

UNITS = {
    "container.cpu.utilization": "1",
    "container.memory.utilization": "1",
    "hw.gpu.utilization": "1",
    "hw.gpu.memory.utilization": "1",
    "hw.npu.utilization": "1",
    "hw.npu.memory.utilization": "1",
    "container.disk.read.rate": "By/s",
    "container.disk.write.rate": "By/s",
    "container.network.receive.rate": "By/s",
    "container.network.transmit.rate": "By/s",
    "container.cpu.usage": "{cpu}",
    "container.memory.working_set": "By",
    "hw.gpu.memory.usage": "By",
    "hw.power": "W",
}


def test_the_table_holds_the_canonical_metrics_with_their_units():
    assert {name: metric.unit for name, metric in METRICS.items()} == UNITS


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_found_by_its_name_and_described(name):
    assert METRICS[name].name == name
    assert METRICS[name].description


@pytest.mark.parametrize("name", METRICS)
def test_the_name_says_the_unit(name):
    assert (METRICS[name].unit == "1") is name.endswith(".utilization")
    assert (METRICS[name].unit == "By/s") is name.endswith(".rate")


def test_the_table_can_not_be_changed():
    with pytest.raises(TypeError):
        METRICS["hw.power"] = Metric("hw.power", "kW", "")  # type: ignore[index]


def test_a_metric_outside_the_table_is_named_after_its_provider():
    name = vendor_metric("p-v1", "cardTemp.max")
    assert name == f"{VENDOR_PREFIX}p-v1.cardTemp.max"
    assert is_metric_name(name)


@pytest.mark.parametrize("name", [*METRICS, "vendor.p.x", "vendor.p.a.b", "vendor.p-v1.cpu usage"])
def test_a_name_that_can_be_asked_for(name):
    assert is_metric_name(name)


@pytest.mark.parametrize(
    "name", ["", "cpu", "HW.POWER", "hw.power ", "vendor", "vendor.", "vendor.p", "vendor.p.", "vendor..x", "vendor.."]
)
def test_a_name_that_can_not_be_asked_for(name):
    assert not is_metric_name(name)
