package clusterspec

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// format is a file format of somebody else.
type format struct {
	name string
	is   func(text []byte) bool
	read func(s *Spec, text []byte) error
}

// formats are tried in this order; what none of them claims is YAML.
var formats = []format{
	{"openb node list", header("sn,cpu_milli,memory_mib,gpu,model"), readOpenb},
	{"Tiresias cluster spec", header("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"), readTiresias},
	{"virtual clusters", either(header("vc,node num"), header(",num")), readVirtualClusters},
	{"Alibaba spot node list", header("gpu_model,gpu_capacity_num,cpu_num,node_name"), readSpot},
	{"PAI machine list", either(header("machine,gpu_type,cap_cpu,cap_mem,cap_gpu"), isPAI), readPAI},
	{"Lingjun hosts", header("ip,DSW,PSW,ASW"), readLingjun},
	{"Synergy cluster config", func(text []byte) bool { return strings.TrimSpace(firstLine(text)) == "[CLUSTER]" }, readSynergy},
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text[:min(len(text), 4096)], []byte("\n"))
	return strings.TrimRight(string(line), "\r")
}

// header recognises a csv file by its first line.
func header(want string) func([]byte) bool {
	return func(text []byte) bool { return firstLine(text) == want }
}

func either(a, b func([]byte) bool) func([]byte) bool {
	return func(text []byte) bool { return a(text) || b(text) }
}

// isPAI recognises the PAI machine list, which is published without its header:
// a hash, a type and three numbers.
func isPAI(text []byte) bool {
	fields := strings.Split(firstLine(text), ",")
	if len(fields) != 5 || len(fields[0]) != 24 || strings.Trim(fields[0], "0123456789abcdef") != "" {
		return false
	}
	for _, f := range fields[2:] {
		if !digits(f) {
			return false
		}
	}
	return true
}

// record is one line of a csv file.
type record struct {
	line   int
	fields []string
}

// number reads a field as a whole number up to most.
func (r record) number(i int, what string, most int64) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(r.fields[i]), 10, 64)
	if err != nil || v < 0 || v > most {
		return 0, fmt.Errorf("line %d: %q is not a number of %s", r.line, r.fields[i], what)
	}
	return v, nil
}

// records visits the lines of a csv file with n fields each, the header left
// out where there is one.
func records(text []byte, n int, hasHeader bool, visit func(record) error) error {
	in := csv.NewReader(bytes.NewReader(text))
	in.FieldsPerRecord = n
	in.ReuseRecord = true
	for first := true; ; first = false {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first && hasHeader {
			continue
		}
		line, _ := in.FieldPos(0)
		if err := visit(record{line, fields}); err != nil {
			return err
		}
		if line > 2*MaxNodes {
			return fmt.Errorf("more than %d lines", 2*MaxNodes)
		}
	}
}

// machine makes one node; fields of cores in milli and memory in bytes.
func machine(name, typ string, gpus int64, cpu unit.Milli, memory unit.Bytes) Group {
	g := Group{Name: name, Count: 1, CPU: cpu, Memory: memory}
	if gpus > 0 {
		if typ == "" {
			typ = UnnamedType
		}
		g.GPUs = []GPUs{{typ, int(gpus)}}
	}
	return g
}

// numbers reads several fields, from the one given on.
func (r record) numbers(from int, most int64, what ...string) ([]int64, error) {
	out := make([]int64, len(what))
	for i, w := range what {
		var err error
		if out[i], err = r.number(from+i, w, most); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readOpenb reads sn, cpu_milli, memory_mib, gpu, model (Weng et al., FGD, ATC
// 23).
func readOpenb(s *Spec, text []byte) error {
	var all []Group
	err := records(text, 5, true, func(r record) error {
		v, err := r.numbers(1, 1<<40, "thousandths of a core", "MiB of memory", "GPUs")
		if err != nil {
			return err
		}
		if v[1] > 1<<30 {
			return fmt.Errorf("line %d: %d MiB of memory", r.line, v[1])
		}
		all = append(all, machine(r.fields[0], r.fields[4], v[2], unit.Milli(v[0]), unit.Bytes(v[1])*unit.MiB))
		return nil
	})
	if err != nil {
		return err
	}
	s.Nodes, err = compact(all)
	return err
}

// readTiresias reads switches, nodes of each switch, GPUs, CPUs and GB of memory
// of each node (Tiresias, Muri). A switch is a rack.
func readTiresias(s *Spec, text []byte) error {
	lines := 0
	return records(text, 5, true, func(r record) error {
		if lines++; lines > 1 {
			return fmt.Errorf("line %d: a second cluster", r.line)
		}
		v, err := r.numbers(0, MaxNodes, "switches", "nodes", "GPUs", "CPUs", "GB of memory")
		if err != nil {
			return err
		}
		if v[0]*v[1] < 1 || v[0]*v[1] > MaxNodes {
			return fmt.Errorf("line %d: %d switches of %d nodes; from 1 to %d nodes are allowed", r.line, v[0], v[1], MaxNodes)
		}
		g := machine("", "", v[2], unitMilli(int(v[3])), unitGiB(int(v[4])))
		g.Count = int(v[0] * v[1])
		s.Levels = racks(int(v[1]))
		s.Nodes = append(s.Nodes, g)
		return nil
	})
}

// readVirtualClusters reads names and numbers of nodes of eight GPUs (Helios,
// Lucid). Each virtual cluster is a partition.
func readVirtualClusters(s *Spec, text []byte) error {
	return records(text, 2, true, func(r record) error {
		n, err := r.number(1, "nodes", MaxNodes)
		if err != nil {
			return err
		}
		name := r.fields[0]
		if !goodName(name) || strings.ContainsAny(name, "{}") {
			return fmt.Errorf("line %d: %q is not a name of a virtual cluster", r.line, name)
		}
		if n > 0 {
			s.Nodes = append(s.Nodes, partition(name, int(n)))
		}
		return nil
	})
}

// readSpot reads gpu_model, gpu_capacity_num, cpu_num, node_name (GFS, ASPLOS
// 26). Nodes are called node- and their number.
func readSpot(s *Spec, text []byte) error {
	var all []Group
	err := records(text, 4, true, func(r record) error {
		v, err := r.numbers(1, MaxDevices, "GPUs", "CPUs")
		if err != nil {
			return err
		}
		all = append(all, machine("node-"+r.fields[3], r.fields[0], v[0], unitMilli(int(v[1])), 0))
		return nil
	})
	if err != nil {
		return err
	}
	s.Nodes, err = compact(all)
	return err
}

// readPAI reads machine, gpu_type, cap_cpu, cap_mem in GB, cap_gpu (Weng et al.,
// NSDI 22). Machines are numbered: their names are hashes.
func readPAI(s *Spec, text []byte) error {
	var all []Group
	err := records(text, 5, strings.HasPrefix(firstLine(text), "machine,"), func(r record) error {
		v, err := r.numbers(2, MaxNodes, "CPUs", "GB of memory", "GPUs")
		if err != nil {
			return err
		}
		all = append(all, machine("", r.fields[1], v[2], unitMilli(int(v[0])), unitGiB(int(v[1]))))
		return nil
	})
	if err != nil {
		return err
	}
	s.Nodes, err = compact(all)
	return err
}

// readLingjun reads hosts and the switches above them (Cao et al., Crux, SIGCOMM
// 24). A host is taken to have eight GPUs, and adapters and switches speeds that are assumed; hosts are
// numbered.
func readLingjun(s *Spec, text []byte) error {
	var all []Group
	err := records(text, 4, true, func(r record) error {
		g := machine("", "", 8, 0, 0)
		g.Place, g.NICs = append(g.Place, r.fields[1:]...), lingjunNICs()
		all = append(all, g)
		return nil
	})
	s.Levels = lingjunLevels()
	if err != nil {
		return err
	}
	s.Nodes, err = compact(all)
	return err
}

// readSynergy reads the section [CLUSTER] of a config of Synergy (Mohan et al.,
// OSDI 22).
func readSynergy(s *Spec, text []byte) error {
	values := map[string]int{"racks": 1, "servers_per_rack": 0, "gpus_per_server": 0, "cpus_per_server": 0, "dram_per_server": 0}
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, written, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if _, known := values[key]; !ok || section != "[CLUSTER]" || !known {
			continue
		}
		written = strings.TrimSpace(written)
		n, err := strconv.Atoi(written)
		if err != nil || n < 0 || n > MaxNodes {
			return fmt.Errorf("line %d: %s is %q, write a number up to %d", i+1, key, written, MaxNodes)
		}
		values[key] = n
	}
	total := int64(values["racks"]) * int64(values["servers_per_rack"])
	if total < 1 || total > MaxNodes {
		return fmt.Errorf("%d racks of %d servers; from 1 to %d servers are allowed", values["racks"], values["servers_per_rack"], MaxNodes)
	}
	g := machine("", "", int64(values["gpus_per_server"]), unitMilli(values["cpus_per_server"]), unitGiB(values["dram_per_server"]))
	g.Count = int(total)
	s.Levels = racks(values["servers_per_rack"])
	s.Nodes = []Group{g}
	return nil
}
