// Package smi reads what nvidia-smi tells of the NVIDIA GPUs of a machine, and holds
// what package hardware has found against it.
//
// Nouns: a Report is the answer of nvidia-smi -q -x; a Topology is the matrix of
// nvidia-smi topo -m.
//
// Units: memory in bytes, utilisation from 0 to 1.
//
// Source: the manual page of nvidia-smi, and what drivers from 384 to 580 print.
package smi

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/hardware"
)

// Program is nvidia-smi, as it is looked for in PATH.
const Program = "nvidia-smi"

// Report is what nvidia-smi -q -x tells.
type Report struct {
	Driver string
	GPUs   []GPU // in nvidia-smi's order, which is that of their PCI addresses
}

// GPU is one GPU of a Report.
type GPU struct {
	Product string
	UUID    string
	PCI     string // as sysfs writes it: 0000:18:00.0
	Minor   int    // of its device file; -1: not told
	MIG     string // Enabled, Disabled; empty: this GPU has none
	Total   unit.Bytes
	Used    unit.Bytes // without what the driver keeps for itself, where the driver tells that apart
	Util    float64    // -1: not told
	// Processes are those that compute on it; nvidia-smi leaves them out in a container.
	Processes []Process
}

// Process is a process that computes on a GPU.
type Process struct {
	PID  int
	MPS  bool // through CUDA MPS
	Used unit.Bytes
}

// document is the part of nvidia-smi's XML that is read.
type document struct {
	Driver string `xml:"driver_version"`
	GPUs   []struct {
		ID      string `xml:"id,attr"`
		Product string `xml:"product_name"`
		UUID    string `xml:"uuid"`
		Minor   string `xml:"minor_number"`
		MIG     struct {
			Current string `xml:"current_mig"`
		} `xml:"mig_mode"`
		Memory struct {
			Total string `xml:"total"`
			Used  string `xml:"used"`
		} `xml:"fb_memory_usage"`
		Utilization struct {
			GPU string `xml:"gpu_util"`
		} `xml:"utilization"`
		Processes []struct {
			PID  string `xml:"pid"`
			Type string `xml:"type"`
			Used string `xml:"used_memory"`
		} `xml:"processes>process_info"`
	} `xml:"gpu"`
}

// Parse reads the answer of nvidia-smi -q -x. A figure that a GPU does not tell (N/A)
// is 0, or what the field says; it fails where there is no report, or a GPU without
// address or memory.
func Parse(text []byte) (*Report, error) {
	var d document
	if err := xml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s -q -x: %w", Program, err)
	}
	r := &Report{Driver: d.Driver}
	for i := range d.GPUs {
		x := &d.GPUs[i]
		g := GPU{Product: x.Product, UUID: x.UUID, PCI: hardware.PlainPCI(x.ID), Minor: -1, Util: -1}
		var err error
		if g.Total, err = amount(x.Memory.Total); err != nil || g.PCI == "" {
			return nil, fmt.Errorf("%s -q -x: GPU %d (%s) has no address, or no memory: %w", Program, i, x.ID, err)
		}
		g.Used, _ = amount(x.Memory.Used)
		if n, err := strconv.Atoi(x.Minor); err == nil {
			g.Minor = n
		}
		if m := x.MIG.Current; m == "Enabled" || m == "Disabled" {
			g.MIG = m
		}
		if n, err := strconv.ParseFloat(strings.TrimSuffix(x.Utilization.GPU, " %"), 64); err == nil {
			g.Util = n / 100
		}
		for _, p := range x.Processes {
			pid, err := strconv.Atoi(p.PID)
			if err != nil || !strings.Contains(p.Type, "C") {
				continue // of graphics alone
			}
			used, _ := amount(p.Used)
			g.Processes = append(g.Processes, Process{PID: pid, MPS: strings.Contains(p.Type, "M"), Used: used})
		}
		r.GPUs = append(r.GPUs, g)
	}
	return r, nil
}

// amount reads an amount such as 81559 MiB.
func amount(s string) (unit.Bytes, error) {
	number, name, _ := strings.Cut(strings.TrimSpace(s), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || name != "MiB" {
		return 0, fmt.Errorf("%q is no amount in MiB", s)
	}
	return unit.Bytes(n) * unit.MiB, nil
}

// ErrNotHere is a machine without nvidia-smi.
var ErrNotHere = errors.New(Program + " is not in PATH")

// Ask asks nvidia-smi of this machine. The error is ErrNotHere, or says what
// nvidia-smi said.
func Ask(ctx context.Context) (*Report, error) {
	text, err := call(ctx, "-q", "-x")
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// AskTopology asks nvidia-smi how the GPUs of this machine are linked.
func AskTopology(ctx context.Context) (*Topology, error) {
	text, err := call(ctx, "topo", "-m")
	if err != nil {
		return nil, err
	}
	return ParseTopology(string(text))
}

func call(ctx context.Context, args ...string) ([]byte, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return nil, ErrNotHere
	}
	text, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		said := strings.TrimSpace(string(text[:min(len(text), 200)]))
		return nil, fmt.Errorf("%s %s: %w: %s", Program, strings.Join(args, " "), err, said)
	}
	return text, nil
}
