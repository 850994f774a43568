// Package cgroup confines the processes of a run as far as the machine permits.
// It limits their memory, their CPU time, and the device files that they may
// open. It can freeze and end all of them, however they have forked.
//
// Nouns: a Manager is a folder of the hierarchy below which groups are made; a
// Group holds the processes of one run; Limits is what it may use at most. CPUs
// are cores, memory is bytes.
//
// It knows both versions of Linux' cgroups. Limits and device rules are written
// by github.com/containerd/cgroups. Birth, freezing, ending and counting are done
// here: that library moves a process into its group after it has started, waits
// without end for a freezer, and waits for the children of others.
//
// Nothing here fails because the machine permits too little: a Group does what
// can be done, and Isolation says in words what is in force and what is not.
//
// # Where groups are made
//
// Version 1: below the parent in each of the hierarchies cpu, memory, devices and
// freezer. Version 2: controllers can be passed on only by a cgroup without
// processes of its own. As root that is /norn, unless systemd has delegated a
// cgroup to the daemon (Delegate=yes); then it is that one, and the daemon moves
// to a leaf of it. A user has permission only where systemd has given it: in the
// daemon's own cgroup when it is alone in it, as under systemd-run --user --scope,
// or in the slice that holds it.
package cgroup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// Limits is what a group may use at most. The zero value limits nothing.
type Limits struct {
	CPUs   float64   // cores; 0: no limit
	Memory api.Bytes // without swap; 0: no limit
	Hidden []string  // device files that must not be opened; those that do not exist are left out
	// Weight is how much CPU time the group gets against the groups beside it when
	// all of them want more than there is, 1 to 10000; 0: as one that says nothing, 100.
	Weight int
}

// usualWeight is the weight of a group that says nothing.
const usualWeight = 100

// weight is the weight as version 2 has it.
func (l *Limits) weight() uint64 {
	if l.Weight == 0 {
		return usualWeight
	}
	return uint64(min(10_000, max(1, l.Weight)))
}

// part is what a group can do to its processes.
type part int

const (
	cpu part = iota
	memory
	devices
	freezer
	parts
)

// lacks says of each part why it cannot be had; empty: it can.
type lacks [parts]string

// all is the same reason for every part.
func all(why string) lacks {
	var l lacks
	for p := range l {
		l[p] = why
	}
	return l
}

// general says what groups can do, for a reader.
func (l lacks) general(version string) []string {
	can := [parts]string{"CPU limits of jobs are enforced", "memory limits of jobs are enforced",
		"jobs cannot open the devices of others", "jobs are paused by the freezer"}
	cannot := [parts]string{"CPU limits of jobs are not enforced", "memory limits of jobs are not enforced",
		"jobs are told their devices, but can open those of others", "jobs are paused by SIGSTOP, which their processes can notice"}
	out := make([]string, 0, parts)
	for p, why := range l {
		if why == "" {
			out = append(out, fmt.Sprintf("%s (%s)", can[p], version))
		} else {
			out = append(out, cannot[p]+": "+why)
		}
	}
	return out
}

// of says what holds for one run, for a reader.
func (l lacks) of(lim Limits, version string) []string {
	var out []string
	say := func(p part, asked bool, yes, no string) {
		switch {
		case !asked:
			out = append(out, no+": no limit was asked for")
		case l[p] != "":
			out = append(out, no+": "+l[p])
		default:
			out = append(out, fmt.Sprintf("%s (%s)", yes, version))
		}
	}
	cores := strconv.FormatFloat(lim.CPUs, 'f', -1, 64)
	say(memory, lim.Memory > 0, "memory is limited to "+unit.Bytes(lim.Memory).String(), "memory is not limited")
	say(cpu, lim.CPUs > 0, "CPU time is limited to "+cores+plural(lim.CPUs, " core"), "CPU time is not limited")
	if lim.Weight > 0 && lim.Weight != usualWeight && l[cpu] == "" {
		out = append(out, fmt.Sprintf("where CPU time is short it counts %v times as much as a job that says nothing (%s)", float64(lim.weight())/usualWeight, version))
	}
	if n := len(lim.Hidden); n > 0 {
		say(devices, true, fmt.Sprintf("%d%s of others cannot be opened", n, plural(float64(n), " device file")),
			"device files of others can be opened")
	}
	say(freezer, true, "it is paused by the freezer", "it is paused by SIGSTOP, which its processes can notice")
	return out
}

func plural(n float64, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// checkName refuses what is not the name of one folder.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00\n") || len(name) > 255 {
		return fmt.Errorf("%q is not a name of a cgroup", name)
	}
	return nil
}

// OOM is how often memory ran out.
type OOM struct {
	Kills int  // processes of the group that the kernel killed for want of memory
	Limit bool // the group reached its own limit
}
