package clusterimport

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is the output of sacctmgr -P: a header and lines, divided by bars.
type table struct {
	columns []string // in lower case, without spaces
	names   []string // of them, as the header has them
	fields  []string // of the present line
}

func tableOf(header string) *table {
	t := &table{}
	for name := range strings.SplitSeq(strings.TrimRight(header, "\r\n"), "|") {
		name = strings.ReplaceAll(strings.TrimSpace(name), " ", "")
		t.columns, t.names = append(t.columns, strings.ToLower(name)), append(t.names, name)
	}
	return t
}

// get is the field of the first of the columns that is there.
func (t *table) get(names ...string) string {
	for _, name := range names {
		if i := slices.Index(t.columns, name); i >= 0 && i < len(t.fields) {
			return t.fields[i]
		}
	}
	return ""
}

// unheeded calls a function with the name of each of the columns that says something in the
// present line.
func (t *table) unheeded(columns []string, says func(column, v string) bool, lose func(name string)) {
	for i, c := range t.columns {
		if slices.Contains(columns, c) && says(c, t.fields[i]) {
			lose(t.names[i])
		}
	}
}

// hasColumns tells of tables with all of the columns.
func hasColumns(names ...string) func([]byte) bool {
	return func(text []byte) bool {
		line := firstLine(text)
		if !bytes.Contains(line, []byte{'|'}) {
			return false
		}
		t := tableOf(string(line))
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(t.columns, n) })
	}
}

// lines calls a function for each line below the header of a table.
func lines(text []byte, f func(t *table) error) error {
	var t *table
	at := 0
	for raw := range bytes.Lines(text) {
		at++
		line := strings.TrimRight(string(raw), "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case t == nil:
			t = tableOf(line)
			continue
		}
		t.fields = strings.Split(line, "|")
		if len(t.fields) < len(t.columns) {
			return atLine(at, fmt.Errorf("%d fields, and the header has %d", len(t.fields), len(t.columns)))
		}
		if err := f(t); err != nil {
			return atLine(at, err)
		}
	}
	return nil
}

// lostAssocLimits are limits of associations that have no counterpart, by the names of their columns.
var lostAssocLimits = []string{"grpsubmit", "grpwall", "grptresmins", "grptresrunmins", "grptresrunmin", "maxtrespernode", "maxsubmit", "maxwall", "maxtresmins", "priority"}

// associations reads sacctmgr show assoc -P, with format=...,parentname or with tree, which
// puts a space before the account for each level.
func (in *inventory) associations(text []byte) error {
	var above []string // accounts by level, of a tree
	cluster := ""
	return lines(text, func(t *table) error {
		raw := t.get("account")
		name := strings.TrimSpace(raw)
		if c := t.get("cluster"); c != "" {
			if cluster == "" {
				cluster = c
			}
			if c != cluster {
				in.lose("associations of other clusters")
				return nil
			}
		}
		t.unheeded(lostAssocLimits, func(_, v string) bool { return told(v) && v != "0" }, func(name string) { in.lose(name + " of associations") })
		share := t.get("share", "fairshare")
		user := t.get("user")
		limits, err := in.assocLimits(t, strings.Trim(name+"/"+user, "/"))
		if err != nil {
			return err
		}
		if user != "" {
			if share != "1" && share != "" {
				in.lose("Share of users other than 1")
			}
			if partition := t.get("partition"); partition == "" {
				in.limited(name+"/"+user, limits)
			} else if limits != [4]string{} {
				in.lose("limits of users in one partition")
			}
			return nil
		}
		level := len(raw) - len(strings.TrimLeft(raw, " "))
		above = append(above[:min(level, len(above))], name)
		if name == "root" || name == "" {
			in.limited("root", limits)
			return nil
		}
		parent := t.get("parentname", "parname")
		if parent == "" && level > 0 && level < len(above)+1 && len(above) > 1 {
			parent = above[len(above)-2]
		}
		grp := limits[0]
		if grp != "0" { // a tenant has it; one that may have nothing is limited by the policy
			limits[0] = ""
		}
		if slices.ContainsFunc(in.accounts, func(a account) bool { return a.name == name }) {
			in.lose("accounts that are told again")
			return nil
		}
		in.limited(name, limits)
		return in.account(name, strings.TrimSpace(parent), share, grp)
	})
}

// assocLimits reads what the jobs of an account, or of a user in it, may have, in the order of the policy's setting: GPUs
// of all, how many run, how many of a user, and GPUs of each.
func (in *inventory) assocLimits(t *table, whose string) (limits [4]string, err error) {
	for i, column := range [...]string{"GrpTRES", "GrpJobs", "MaxJobs", "MaxTRES"} {
		if limits[i], err = in.amount(t, column, "associations"); err != nil {
			return limits, fmt.Errorf("association %s: %w", short(whose), err)
		}
	}
	return limits, nil
}

// limited takes in the limits of an account, or of a user in one.
func (in *inventory) limited(name string, limits [4]string) {
	switch most := strings.TrimRight(strings.Join(limits[:], ":"), ":"); {
	case most == "":
	case in.capped[name]:
		in.lose("limits of associations that are told again")
	default:
		in.capped[name] = true
		in.limits = append(in.limits, [2]string{name, most})
	}
}

// amount reads the limit of GPUs, or of jobs, in a column; empty: none.
func (in *inventory) amount(t *table, column, of string) (limit string, err error) {
	text := t.get(strings.ToLower(column))
	if strings.Contains(column, "Jobs") && text != "" {
		text = "jobs=" + text
	}
	for _, item := range listOf(text) {
		what, amount, _ := strings.Cut(item, "=")
		n, err := strconv.ParseInt(amount, 10, 32)
		switch {
		case what != "gres/gpu" && what != "jobs":
			in.lose(column + " " + what + " of " + of)
		case err != nil || n < -1:
			return "", fmt.Errorf("%s=%s, a whole number is expected", column, short(item))
		case n >= 0:
			limit = strconv.FormatInt(n, 10)
		}
	}
	return limit, nil
}

// account takes in an account.
func (in *inventory) account(name, parent, share, gpus string) error {
	a := account{name: name, parent: parent}
	if parent == "root" {
		a.parent = ""
	}
	switch n, err := strconv.ParseFloat(share, 64); {
	case share == "parent":
		in.lose("Share=parent of accounts")
	case share == "":
	case err != nil || !(n >= 0 && n <= 1e12):
		return fmt.Errorf("account %s: a share of %s, a number is expected", name, short(share))
	case n == 0:
		a.share = 1e-3
		in.note("accounts with a share of 0 get a weight of 0.001")
	default:
		a.share = n
	}
	a.gpus, _ = strconv.ParseInt(gpus, 10, 32) // a number, or nothing
	in.accounts = append(in.accounts, a)
	return nil
}

// lostQOSLimits are limits of QOSs that have no counterpart.
var lostQOSLimits = []string{
	"gracetime", "preemptexempttime", "usagethres", "usagefactor", "grptresmins", "grptresrunmins", "grpjobs", "grpsubmit", "grpwall", "maxtrespernode",
	"maxtresmins", "maxwall", "maxsubmitpu", "maxtrespa", "maxjobspa", "maxsubmitpa", "mintres",
}

// qosLimits reads what the jobs of a QOS may have.
func (in *inventory) qosLimits(q *qos, t *table) (err error) {
	for i, column := range [...]string{"GrpTRES", "MaxTRESPU", "MaxJobsPU", "MaxTRES"} {
		if q.limits[i], err = in.amount(t, column, "QOSs"); err != nil {
			return fmt.Errorf("QOS %s: %w", short(q.name), err)
		}
	}
	return nil
}

// qualities reads sacctmgr show qos -P.
func (in *inventory) qualities(text []byte) error {
	return lines(text, func(t *table) error {
		q := qos{name: strings.TrimSpace(t.get("name")), preempts: listOf(t.get("preempt"))}
		p := t.get("priority")
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil && p != "" {
			return fmt.Errorf("QOS %s: a priority of %s, a whole number is expected", short(q.name), short(p))
		}
		q.priority = float64(n)
		if err := in.qosLimits(&q, t); err != nil {
			return err
		}
		t.unheeded(lostQOSLimits, func(column, v string) bool {
			usual := map[string]string{"usagefactor": "1.000000"}[column]
			return told(v) && v != usual && v != "00:00:00" && v != "0"
		}, func(name string) { in.lose(name + " of QOSs") })
		if q.name != "" && !slices.ContainsFunc(in.qoses, func(o qos) bool { return o.name == q.name }) {
			in.qoses = append(in.qoses, q)
		}
		return nil
	})
}
