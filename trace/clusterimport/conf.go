package clusterimport

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// schedules are the settings of slurm.conf that say how jobs are scheduled, and are taken
// over. Names are in lower case.
var schedules = []string{
	"priorityweightage", "priorityweightfairshare", "priorityweightjobsize", "priorityweightpartition", "priorityweightqos", "prioritymaxage", "prioritytype", "priorityflags",
	"prioritydecayhalflife", "prioritycalcperiod", "priorityfavorsmall", "fairsharedampeningfactor", "preempttype", "preemptmode", "preemptexempttime", "schedulertype", "schedulerparameters",
}

// unheeded are those that say more about scheduling than can be taken over.
var unheeded = []string{"include", "priorityweighttres", "priorityweightassoc", "priorityusageresetperiod", "preemptparameters", "topologyplugin", "licenses", "suspendtime", "overtimelimit"}

// isConfiguration tells of slurm.conf, and of scontrol show config.
func isConfiguration(text []byte) bool {
	for line := range bytes.Lines(text) {
		name, _, ok := bytes.Cut(line, []byte{'='})
		name = bytes.TrimSpace(name)
		if bytes.HasPrefix(line, []byte("Configuration data as of")) {
			return true
		}
		if !ok {
			continue
		}
		switch low := strings.ToLower(string(name)); {
		case low == "nodename" || low == "partitionname" || low == "clustername" || low == "slurmctldhost" || slices.Contains(schedules, low):
			return true
		}
	}
	return false
}

// configuration reads slurm.conf, scontrol show config, and scontrol show partition.
func (in *inventory) configuration(text []byte) error {
	at, from, whole := 0, 1, ""
	for raw := range bytes.Lines(text) {
		at++
		line, _, _ := strings.Cut(strings.TrimRight(string(raw), "\r\n"), "#")
		if whole == "" {
			from = at
		}
		if more, goesOn := strings.CutSuffix(strings.TrimRight(line, " \t"), `\`); goesOn && len(whole) < 1<<20 {
			whole += more + " "
			continue
		}
		whole += line
		if err := in.line(whole); err != nil {
			return atLine(from, err)
		}
		whole = ""
	}
	if err := in.line(whole); err != nil {
		return atLine(from, err)
	}
	return nil
}

// line takes in a line of configuration. scontrol show partition has those of a partition go
// on, with spaces before them.
func (in *inventory) line(line string) error {
	name, value, ok := strings.Cut(line, "=")
	name = strings.TrimSpace(name)
	if !ok {
		if word, _, _ := strings.Cut(name, " "); strings.EqualFold(word, "include") {
			in.lose("Include in slurm.conf")
		}
		return nil
	}
	pairs := pairsOf(line)
	switch low := strings.ToLower(name); {
	case low == "nodename":
		return in.nodeLine(pairs)
	case low == "partitionname":
		return in.partitionLine(pairs)
	case low == "nodeset":
		return in.setLine(pairs)
	case slices.Contains(schedules, low):
		in.settings[low] = strings.TrimSpace(value)
	case line != "" && (line[0] == ' ' || line[0] == '\t') && len(in.partitions) > 0 && !strings.Contains(line, " = "):
		for _, p := range pairs {
			if err := in.partitionField(in.partitions[len(in.partitions)-1], p); err != nil {
				return err
			}
		}
	case slices.Contains(unheeded, low) && told(strings.TrimSpace(value)) && strings.TrimSpace(value) != "0":
		in.lose(name + " of slurm.conf")
	}
	return nil
}

// nodeLine reads NodeName=... CPUs=... of slurm.conf.
func (in *inventory) nodeLine(pairs []pair) error {
	n := in.defaults
	product, has := int64(1), false
	for _, p := range pairs[1:] {
		var err error
		ok := true
		switch strings.ToLower(p.name) {
		case "cpus", "procs":
			n.cpu, ok = cores(p.value)
		case "sockets", "corespersocket", "threadspercore", "boards", "socketsperboard":
			k, wrong := strconv.ParseInt(p.value, 10, 16)
			ok = wrong == nil && k > 0 && product < 1<<30
			product, has = product*max(1, k), true
		case "realmemory":
			n.memory, ok = megabytes(p.value)
		case "gres":
			n.gpus, err = gpusOf(p.value, in.otherGres)
		case "feature", "features":
			n.features = listOf(p.value)
		case "state":
			n.state(p.value)
		case "corespeccount", "memspeclimit":
			in.lose(p.name + " of nodes")
		}
		if !ok {
			err = fmt.Errorf("%s=%s: a number is expected", p.name, short(p.value))
		}
		if err != nil {
			return err
		}
	}
	if has && n.cpu == in.defaults.cpu {
		n.cpu = unit.Milli(product) * unit.One
	}
	if strings.EqualFold(pairs[0].value, "DEFAULT") {
		in.defaults = n
		return nil
	}
	n.away = false // what slurm.conf says of it is how it begins
	return in.addAll(pairs[0].value, &n)
}

// setLine reads NodeSet=... Nodes=... Feature=....
func (in *inventory) setLine(pairs []pair) error {
	for _, p := range pairs[1:] {
		switch strings.ToLower(p.name) {
		case "nodes":
			in.sets[pairs[0].value] = append(in.sets[pairs[0].value], outside(p.value, ',')...)
		case "feature":
			in.features[pairs[0].value] = p.value
		}
	}
	return nil
}

// partitionLine reads PartitionName=... Nodes=....
func (in *inventory) partitionLine(pairs []pair) error {
	to := &in.usual
	if !strings.EqualFold(pairs[0].value, "DEFAULT") {
		to = in.partition(pairs[0].value)
		was := *to
		*to = in.usual
		to.name, to.nodes = was.name, append(append([]string(nil), was.nodes...), in.usual.nodes...)
	}
	for _, p := range pairs[1:] {
		if err := in.partitionField(to, p); err != nil {
			return err
		}
	}
	return nil
}

// partitionField takes in a field of a partition.
func (in *inventory) partitionField(to *partition, p pair) error {
	name := strings.ToLower(p.name)
	switch name {
	case "nodes":
		if told(p.value) {
			to.nodes = append(to.nodes, outside(p.value, ',')...)
		}
	case "priorityjobfactor", "prioritytier", "priority":
		n, err := strconv.ParseUint(p.value, 10, 16)
		if err != nil {
			return fmt.Errorf("%s=%s: a whole number up to 65535 is expected", p.name, short(p.value))
		}
		if name != "prioritytier" {
			to.factor = float64(n)
		}
		if name != "priorityjobfactor" {
			to.tier = int(n)
		}
	case "maxtime", "maxnodes", "qos", "denyaccounts", "denyqos", "maxcpuspernode", "maxmempernode", "maxmempercpu":
		if told(p.value) {
			in.lose(p.name + " of partitions")
		}
	case "allowaccounts", "allowqos", "allowgroups":
		if !strings.EqualFold(p.value, "ALL") && told(p.value) {
			in.lose(p.name + " of partitions")
		}
	case "oversubscribe", "shared":
		if up := strings.ToUpper(p.value); strings.HasPrefix(up, "FORCE") || strings.HasPrefix(up, "YES") {
			in.lose("OverSubscribe of partitions")
		}
	case "preemptmode":
		if up := strings.ToUpper(p.value); told(p.value) && up == "OFF" && in.settings["preempttype"] == "preempt/partition_prio" {
			in.lose("PreemptMode=OFF of partitions")
		}
	case "state":
		if up := strings.ToUpper(p.value); up != "UP" {
			in.note("partitions that are not up (State=%s) are taken as up", p.value)
		}
	}
	return nil
}
