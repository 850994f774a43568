package clusterimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/jsontext"
)

// nodesText reads scontrol show node, with -o or without.
func (in *inventory) nodesText(text []byte) error {
	var name string
	var found node
	keep := func() error {
		if name == "" {
			return nil
		}
		n, err := in.node(name)
		if err == nil {
			n.learn(&found)
		}
		name, found = "", node{}
		return err
	}
	at := 0
	for line := range bytes.Lines(text) {
		at++
		for _, p := range pairsOf(strings.TrimSpace(string(line))) {
			if p.name == "NodeName" {
				if err := keep(); err != nil {
					return atLine(at, err)
				}
				name = p.value
				continue
			}
			if err := in.nodeField(&found, p); err != nil {
				return atLine(at, err)
			}
		}
	}
	return keep()
}

// nodeField takes in a field of scontrol show node.
func (in *inventory) nodeField(n *node, p pair) (err error) {
	ok := true
	switch p.name {
	case "CPUTot":
		n.cpu, ok = cores(p.value)
	case "RealMemory":
		n.memory, ok = megabytes(p.value)
	case "Gres":
		n.gpus, err = gpusOf(p.value, in.otherGres)
	case "AvailableFeatures":
		n.features = listOf(p.value)
	case "Partitions":
		n.partitions = listOf(p.value)
	case "State":
		n.state(p.value)
	case "CoreSpecCount", "MemSpecLimit":
		if p.value != "0" {
			in.lose(p.name + " of nodes")
		}
	}
	if !ok {
		return fmt.Errorf("%s=%s: a number is expected", p.name, short(p.value))
	}
	return err
}

func (in *inventory) otherGres(name string) { in.lose("Gres " + name + " of nodes") }

// listOf is the words of a list with commas.
func listOf(v string) []string {
	var out []string
	for w := range strings.SplitSeq(v, ",") {
		if w = strings.TrimSpace(w); told(w) {
			out = append(out, w)
		}
	}
	return out
}

// state takes in the state of a node: IDLE, MIXED+DRAIN, down*.
func (n *node) state(v string) {
	v = strings.ToUpper(v)
	n.future = n.future || strings.Contains(v, "FUTURE")
	for _, word := range []string{"DOWN", "DRAIN", "FAIL", "DRNG", "DRAINED", "MAINT", "UNK"} {
		n.away = n.away || strings.Contains(v, word) && !strings.Contains(v, "POWERED_DOWN") && !strings.Contains(v, "POWERING_DOWN")
	}
}

// isNodesJSON tells of the output of scontrol show node --json.
func isNodesJSON(text []byte) bool {
	t := jsontext.NewReader(text)
	found := false
	_ = t.Object(func(key []byte) error {
		found = found || string(key) == "nodes" && t.Peek() == '['
		return t.Skip()
	})
	return found
}

// words of JSON may be a list, or one text with commas.
type wordList []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *wordList) UnmarshalJSON(b []byte) error {
	var one string
	if len(b) > 0 && b[0] == '"' {
		err := json.Unmarshal(b, &one)
		*w = listOf(one)
		return err
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// nodesJSON reads scontrol show node --json.
func (in *inventory) nodesJSON(text []byte) error {
	var list struct {
		Nodes []struct {
			Name       string   `json:"name"`
			CPUs       int64    `json:"cpus"`
			Memory     int64    `json:"real_memory"`
			Gres       string   `json:"gres"`
			Features   wordList `json:"features"`
			Partitions wordList `json:"partitions"`
			State      wordList `json:"state"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for i, j := range list.Nodes {
		var n node
		var ok1, ok2 bool
		n.cpu, ok1 = cores(fmt.Sprint(j.CPUs))
		n.memory, ok2 = megabytes(fmt.Sprint(j.Memory))
		if !ok1 || !ok2 || j.Name == "" {
			return fmt.Errorf("node %d of the list: a name, and cpus and real_memory from 0 on, are expected", i+1)
		}
		var err error
		if n.gpus, err = gpusOf(j.Gres, in.otherGres); err != nil {
			return fmt.Errorf("node %s: %w", j.Name, err)
		}
		n.features, n.partitions = j.Features, j.Partitions
		n.state(strings.Join(j.State, "+"))
		to, err := in.node(j.Name)
		if err != nil {
			return err
		}
		to.learn(&n)
	}
	return nil
}

// sinfoColumns are the columns that are used, by their headers.
var sinfoColumns = []string{"NODELIST", "PARTITION", "CPUS", "MEMORY", "GRES", "STATE", "AVAIL_FEATURES", "AVAIL_FE", "FEATURES"}

// isSinfo tells of the output of sinfo: a header with NODELIST and one more column.
func isSinfo(text []byte) bool {
	_, header := sinfoHeader(text)
	return slices.Contains(header, "NODELIST") && (slices.Contains(header, "PARTITION") || slices.Contains(header, "GRES"))
}

// sinfoHeader finds the line of the header, which sinfo -l puts below the time of day. It is
// one of the first three.
func sinfoHeader(text []byte) (at int, header []string) {
	for line := range bytes.Lines(text) {
		if at++; at > 3 {
			break
		}
		if h := sinfoFields(string(line)); slices.Contains(h, "NODELIST") {
			return at, h
		}
	}
	return 0, nil
}

// sinfoFields divides a line at spaces, or at bars where it has any.
func sinfoFields(line string) []string {
	if !strings.Contains(line, "|") {
		return strings.Fields(line)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// sinfo reads sinfo, with -N or without.
func (in *inventory) sinfo(text []byte) error {
	head, header := sinfoHeader(text)
	at := 0
	for line := range bytes.Lines(text) {
		if at++; at <= head || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fields := sinfoFields(string(line))
		if len(fields) < len(header) && header[len(header)-1] != "REASON" {
			return atLine(at, fmt.Errorf("%d fields, and the header has %d", len(fields), len(header)))
		}
		var list string
		var n node
		for i, name := range header {
			if i >= len(fields) || !slices.Contains(sinfoColumns, name) {
				continue
			}
			if name == "NODELIST" {
				list = fields[i]
			} else if err := in.sinfoField(&n, name, fields[i]); err != nil {
				return atLine(at, err)
			}
		}
		if err := in.addAll(list, &n); err != nil {
			return atLine(at, err)
		}
	}
	return nil
}

// addAll has all nodes of a list learn the same.
func (in *inventory) addAll(list string, n *node) error {
	all, err := hosts(list)
	if err != nil {
		return err
	}
	for _, name := range all {
		to, err := in.node(name)
		if err != nil {
			return err
		}
		to.learn(n)
	}
	return nil
}

func (in *inventory) sinfoField(n *node, name, v string) (err error) {
	ok := true
	switch name {
	case "PARTITION":
		n.partitions = listOf(strings.TrimSuffix(v, "*"))
		for _, p := range n.partitions {
			in.partition(p)
		}
	case "CPUS":
		n.cpu, ok = cores(v)
	case "MEMORY":
		n.memory, ok = megabytes(v)
	case "GRES":
		n.gpus, err = gpusOf(v, in.otherGres)
	case "STATE":
		n.state(v)
	default:
		n.features = listOf(v)
	}
	if !ok {
		return fmt.Errorf("%s %s: a number is expected", name, short(v))
	}
	return err
}
