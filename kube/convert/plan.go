package convert

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Plan says where each rank of a run goes. It is the value of the annotation names.Plan.
type Plan struct {
	Run   int32    // its number, from 1
	Nodes []string // of each rank
}

// Bounds of a plan: what an annotation can hold beside others (256 KiB for all of an
// object), and how many ranks a run may have.
const (
	maxPlan  = 200 << 10
	maxRanks = 1 << 17
)

// leastShared is the least number of bytes that a name must share with the one before it
// to be written as what differs, and the least at its end to be left out.
const leastShared = 4

// String writes a plan: the number of the run, a blank, and the nodes in the order of the
// ranks:
//
//	3 n1*8,n2*8,n3
//	1 gke-pool-a1b2c3-x7*8,16+9q*8
//	1 ip-10-0-4-17.compute.internal,8+5-21+17
//
// n1*8 stands for eight ranks on n1 that follow each other. 16+9q is the first 16 bytes of
// the name before it and 9q; 8+5-21+17 is its first 8 bytes, 5-21, and its last 17 bytes.
func (p *Plan) String() string {
	b := append(strconv.AppendInt(nil, int64(p.Run), 10), ' ')
	last := ""
	for at := 0; at < len(p.Nodes); {
		name, n := p.Nodes[at], at
		for n < len(p.Nodes) && p.Nodes[n] == name {
			n++
		}
		if at > 0 {
			b = append(b, ',')
		}
		b = appendName(b, name, last)
		if n-at > 1 {
			b = strconv.AppendInt(append(b, '*'), int64(n-at), 10)
		}
		last, at = name, n
	}
	return string(b)
}

// appendName writes a name, or by what it differs from the one before it.
func appendName(b []byte, name, last string) []byte {
	head := 0
	for head < len(last) && head < len(name) && last[head] == name[head] {
		head++
	}
	tail := 0
	for tail < len(last)-head && tail < len(name)-head && last[len(last)-1-tail] == name[len(name)-1-tail] {
		tail++
	}
	if tail < leastShared {
		tail = 0
	}
	if head+tail < leastShared {
		return append(b, name...)
	}
	b = append(strconv.AppendInt(b, int64(head), 10), '+')
	b = append(b, name[head:len(name)-tail]...)
	if tail > 0 {
		b = strconv.AppendInt(append(b, '+'), int64(tail), 10)
	}
	return b
}

// Check says what is wrong with a plan, or nil. A plan that is right can be read again.
func (p *Plan) Check() error {
	switch {
	case p.Run < 1:
		return fmt.Errorf("plan: run %d, the first is 1", p.Run)
	case len(p.Nodes) == 0 || len(p.Nodes) > maxRanks:
		return fmt.Errorf("plan: %d ranks, from 1 to %d are allowed", len(p.Nodes), maxRanks)
	}
	last := ""
	for i, n := range p.Nodes {
		if (i == 0 || n != last) && len(validation.IsDNS1123Subdomain(n)) > 0 {
			return fmt.Errorf("plan: %q is no name of a node", n)
		}
		last = n
	}
	return nil
}

// ParsePlan reads what String has written. It fails on anything else that users may have
// put there.
func ParsePlan(text string) (*Plan, error) {
	if len(text) > maxPlan {
		return nil, fmt.Errorf("plan: %d bytes, at most %d are allowed", len(text), maxPlan)
	}
	number, rest, ok := strings.Cut(text, " ")
	run, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return nil, fmt.Errorf("plan: %.40q is no number of a run and nodes", text)
	}
	p := &Plan{Run: int32(run)}
	last := ""
	for item := range strings.SplitSeq(rest, ",") {
		name, times, err := planItem(item, last, maxRanks-len(p.Nodes))
		if err != nil {
			return nil, err
		}
		for range times {
			p.Nodes = append(p.Nodes, name)
		}
		last = name
	}
	return p, p.Check()
}

// planItem reads ranks on one node, at most as many as are left.
func planItem(item, last string, left int) (name string, times int, err error) {
	name, count, told := strings.Cut(item, "*")
	times = 1
	if told {
		times, err = strconv.Atoi(count)
	}
	if err != nil || times < 1 || times > left {
		return "", 0, fmt.Errorf("plan: %.40q is no node, or one with too many ranks", item)
	}
	if parts := strings.Split(name, "+"); len(parts) > 3 {
		return "", 0, fmt.Errorf("plan: %.40q is no node", item)
	} else if len(parts) > 1 {
		ends := [2]int{} // bytes of the name before at the beginning and at the end
		for i, text := range []string{parts[0], parts[len(parts)-1]}[:len(parts)-1] {
			if ends[i], err = strconv.Atoi(text); err != nil || ends[i] < 0 || ends[i] > len(last) {
				return "", 0, fmt.Errorf("plan: %.40q is no node", item)
			}
		}
		name = last[:ends[0]] + parts[1] + last[len(last)-ends[1]:]
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return "", 0, fmt.Errorf("plan: a name of %d bytes is no name of a node", len(name))
	}
	return name, times, nil
}
