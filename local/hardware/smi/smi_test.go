package smi

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// TestParse: GPUs with and without MIG, figures that are not told, processes of graphics
// and of CUDA MPS, a driver that knows no MIG.
func TestParse(t *testing.T) {
	r, err := Parse([]byte(`<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>535.1</driver_version>
	<gpu id="00000000:10:1C.0">
		<product_name>NVIDIA A100-SXM4-40GB</product_name>
		<mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
		<mig_devices><mig_device><index>0</index><gpu_instance_id>9</gpu_instance_id><fb_memory_usage><total>4864 MiB</total><used>3 MiB</used></fb_memory_usage></mig_device></mig_devices>
		<uuid>GPU-1</uuid><minor_number>0</minor_number>
		<fb_memory_usage><total>40960 MiB</total><reserved>571 MiB</reserved><used>25 MiB</used></fb_memory_usage>
		<utilization><gpu_util>N/A</gpu_util></utilization>
		<processes><process_info><gpu_instance_id>9</gpu_instance_id><pid>7</pid><type>C</type><used_memory>N/A</used_memory></process_info></processes>
	</gpu>
	<gpu id="00000001:3B:00.0">
		<product_name>Tesla T4</product_name><uuid>GPU-2</uuid><minor_number>N/A</minor_number>
		<fb_memory_usage><total>15109 MiB</total><used>310 MiB</used></fb_memory_usage>
		<utilization><gpu_util>42 %</gpu_util></utilization>
		<processes>
			<process_info><pid>8</pid><type>G</type><used_memory>9 MiB</used_memory></process_info>
			<process_info><pid>9</pid><type>M+C</type><used_memory>300 MiB</used_memory></process_info>
			<process_info><pid>10</pid><type>C+G</type><used_memory>1 MiB</used_memory></process_info>
		</processes>
	</gpu>
</nvidia_smi_log>`))
	if err != nil {
		t.Fatal(err)
	}
	want := []GPU{
		{Product: "NVIDIA A100-SXM4-40GB", UUID: "GPU-1", PCI: "0000:10:1c.0", MIG: "Enabled", Total: 40960 * unit.MiB, Used: 25 * unit.MiB, Util: -1, Processes: []Process{{PID: 7}}},
		{Product: "Tesla T4", UUID: "GPU-2", PCI: "0001:3b:00.0", Minor: -1, Total: 15109 * unit.MiB, Used: 310 * unit.MiB, Util: 0.42,
			Processes: []Process{{PID: 9, MPS: true, Used: 300 * unit.MiB}, {PID: 10, Used: unit.MiB}}},
	}
	if r.Driver != "535.1" || !reflect.DeepEqual(r.GPUs, want) {
		t.Errorf("%+v", r)
	}
}

// TestParseRefuses: what is no report, and GPUs that lack what all have.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.":                                                       "nvidia-smi -q -x: EOF",
		`<nvidia_smi_log><gpu id="00000000:10:00.0"><fb_memory_usage><total>[Unknown Error]</total></fb_memory_usage></gpu></nvidia_smi_log>`: `GPU 0 (00000000:10:00.0) has no address, or no memory: "[Unknown Error]" is no amount in MiB`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestParseTopology: the matrix of a driver of today with network cards, as a terminal
// shows it and as people pass it on, and one of an old driver.
func TestParseTopology(t *testing.T) {
	today := "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \tNV18\tPIX\t0-23\t0\t\tN/A\nGPU1\tNV18\t X \tNODE\t24-47\t1-2\t\tN/A\nNIC0\tPIX\tNODE\t X \n\nLegend:\n"
	spaced := "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\nGPU0     X      NV18    PIX     0-23    0               N/A\nGPU1    NV18     X      NODE    24-47   N/A             N/A\n"
	old := "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\tPIX\t0-19,40-59\nGPU1\tSOC\t X \tSOC\t20-39\n"
	for text, want := range map[string]Link{
		today: {"NV18", cluster.NVLink, 18}, spaced: {"NV18", cluster.NVLink, 18}, old: {"SOC", cluster.CrossSocket, 0},
	} {
		got, err := ParseTopology(text)
		if err != nil {
			t.Fatal(err)
		}
		self := Link{"X", cluster.SameDevice, 0}
		if !reflect.DeepEqual(got.Links, [][]Link{{self, want}, {want, self}}) {
			t.Errorf("%+v", got.Links)
		}
		if numa := map[string][]int{today: {0, -1}, spaced: {0, -1}, old: {-1, -1}}[text]; !reflect.DeepEqual(got.NUMA, numa) {
			t.Errorf("%+v", got.NUMA)
		}
	}
	for text, want := range map[string]string{
		"":                                   "there is no matrix",
		"\tGPU0\tGPU1\nGPU0\t X \tNV4\n":     "1 of 2 GPUs",
		"\tGPU0\tGPU1\nGPU0\t X \n":          "the row of GPU0 has 1 words",
		"\tGPU0\tGPU1\nGPU0\t X \tODD\n":     `the unknown word "ODD"`,
		"\tGPU0\tGPU1\nGPU0\t X \tNV0\n":     `the unknown word "NV0"`,
		"Failed to initialize NVML: Unknown": "there is no matrix",
	} {
		if _, err := ParseTopology(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNotHere: a machine without nvidia-smi is told from one whose nvidia-smi fails.
func TestNotHere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Ask(context.Background()); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
	if _, err := AskTopology(context.Background()); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
}
