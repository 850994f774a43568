package trace_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// fullRows are a row of each format that is a table, beside those of samples,
// with something in columns that are empty or missing there.
var fullRows = []struct{ format, text string }{
	{"csv", "job,name,user,tenant,partition,app,rungs,kind,model,backbone,dataset,share,batch,units,unit,priority,tier,stop,resize,retries,gpus,tasks,min_tasks,max_tasks,cpus,mem,gpu_mem,gpu_type,slots,where,tolerate,within,outcome,true_gpu_mem,at_least,group,qos,sensitivity,rank,weight,shape,cpu_per_gpu,latency," +
		"submit,duration,attempts,wait,deadline,soft,estimate,user_estimate,group_estimate,group_gpu_estimate\n" +
		"a,n,u,t,p,s,4x8,training,m,b,d,1,8,9,steps,1,standard,freeze,in-place,2,4,2,1,4,8,16GiB,8GiB,A100,rdma=1|pods=2,mem>40 | !spot,spot:NoExecute,rack?,failed,4GiB,1,g,q,A,3,2,table users 10x4*2;layers 8x4x1;optimizer adam,12.5,1.5,5,1h,1|2,7,+2h,1,3h,4h,5h,6h\n"},
	{"csv", "id,gpus,duration\na,1,1\n"},
	{"philly", "submit_time,vc,num_gpus,num_attempts,run_s,attempt_run_s,passed,status,user,num_nodes,match\n2017-10-01 00:00:10,v,8,3,600,100|200|300,0,Killed,7,1,exact\n"},
	{"helios", "job_id,row_in_cluster_log,submit_time,num_gpus,duration_s,duration_clamped,qssf_lgb_priority,lucid_ebm_priority,user,cpu_num,node_num,status\n10,1,2020-03-18 04:02:39,1,84,0,10326,12,4,1,1,Failed\n"},
	{"helios-log", "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,duration,queue,dataset,model,batchsize,amp,speed,gpu_util,gmem_util,gmem\n" +
		"1,u0,vcA,train,8,48,1,COMPLETED,2020-04-01 00:00:00,60,3,SQuAD,BERT,32,1,84.5,50,25,2048\n"},
	{"pai", "job_id,user,gpu_type,num_gpu,num_cpu,submit_time,num_inst,duration,user_dur,group_dur,group_gpu_dur,group\n1,u55,V100,0.5,6,11,4,904,1657.4,3843.1,931.1,g\n"},
	{"alibaba-dlrm", "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n" +
		"c,HN,app_0,8,8,1,1,25,25,1.0,1.0,1,1,8,20,21,25.5\n"},
	{"gavel", "A3C\tpython3\trl\t--max-steps\t0\t718\t1\t2\t1.5\t10.5\n"},
}

// anyText are the columns whose fields may be any text, in all formats or in one.
var anyText = strings.Fields(`job id name user tenant partition app model backbone dataset unit gpu_type where tolerate within group qos sensitivity
	job_id vc app_id model_name u_id project instance_sn role app_name jobname gpu_spec predict_type groupId
	checkpoint_model_version_id mode script topology job_type task application exec_plan cluster
	philly-attempts: thetagpu:job`)

// mutants are what a field is replaced by, each under the name of its kind.
var mutants = []struct{ kind, field string }{
	{"empty", ""}, {"negative", "-1"}, {"NaN", "NaN"}, {"huge", "1e30"}, {"text", "abc"}, {"wrong date", "2017-13-45 99:00:00"},
}

// mayBe are fields that are none of the usual and nevertheless have a meaning,
// which docs/traces.md tells.
var mayBe = map[string]string{
	"csv retries -1":                "always",
	"csv rank -1":                   "a rank is any number",
	"csv rank 1e30":                 "a rank is any number",
	"helios qssf_lgb_priority -1":   "a rank is any number",
	"helios qssf_lgb_priority 1e30": "a rank is any number",
	"helios lucid_ebm_priority -1":  "predictions may be negative",
	"csv priority -1":               "any whole number",
	"muri priority -1":              "any whole number",
	"gavel SLO -1":                  "none",
	"shockwave SLO -1":              "none",
}

// wholeRow are errors that are about several columns.
var wholeRow = map[string]bool{
	"csv gpus ": true, // a job without GPUs needs cores or memory
}

// table is a text of one row, taken apart.
type table struct {
	format trace.Format
	comma  string
	header string // with its line end; empty: none
	names  []string
	row    []string
}

// tables are rows of all formats that are tables.
func tables(t *testing.T) []table {
	var all []table
	add := func(name, text string) {
		f, err := trace.Named(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Columns == nil {
			return
		}
		lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
		tab := table{format: f, comma: ","}
		if strings.Contains(text, "\t") {
			tab.comma = "\t"
		}
		if strings.HasPrefix(name, "gavel") || name == "shockwave" || name == "synergy" || name == "mapa" {
			for _, c := range f.Columns {
				tab.names = append(tab.names, c.Name)
			}
		} else {
			tab.header, tab.names = lines[0]+"\n", strings.Split(lines[0], tab.comma)
			lines = lines[1:]
		}
		tab.row = strings.Split(lines[0], tab.comma)
		all = append(all, tab)
	}
	for _, s := range samples {
		add(s.format, s.text)
	}
	for _, s := range fullRows {
		add(s.format, s.text)
	}
	return all
}

// with is the row with another field.
func (tab *table) with(column int, field string) string {
	row := slices.Clone(tab.row)
	row[column] = field
	return strings.Join(row, tab.comma) + "\n"
}

func (tab *table) whole() string { return strings.Join(tab.row, tab.comma) + "\n" }

// read reads rows below the header.
func (tab *table) read(t *testing.T, rows string, skip bool) ([]trace.Entry, trace.Info, error) {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(tab.header+rows), "f", trace.Options{Format: tab.format.Name, Extra: []trace.Format{tab.format}, SkipBad: skip, Sort: true})
	if err != nil {
		return nil, trace.Info{}, err
	}
	entries, info := drain(t, r)
	return entries, info, nil
}

// TestMutations puts what is wrong into every column of every format: what comes
// out is an error that tells line and column, or what the declaration of the
// column says that it means, which the reader tells with a count.
func TestMutations(t *testing.T) {
	covered := map[string]bool{}
	for _, tab := range tables(t) {
		for i, name := range tab.names {
			at := slices.IndexFunc(tab.format.Columns, func(c trace.Column) bool { return c.Name == name })
			if at < 0 || tab.row[i] == "" && tab.format.Columns[at].Set != nil {
				continue
			}
			c := tab.format.Columns[at]
			covered[tab.format.Name+" "+name] = true
			for _, m := range mutants {
				t.Run(fmt.Sprintf("%s/%s/%s", tab.format.Name, name, m.kind), func(t *testing.T) { mutate(t, &tab, i, c, m.field) })
			}
		}
	}
	for _, f := range trace.Formats() {
		for _, c := range f.Columns {
			if c.Set != nil && !covered[f.Name+" "+c.Name] {
				t.Errorf("no row of the test has column %q of format %s", c.Name, f.Name)
			}
		}
	}
}

func mutate(t *testing.T, tab *table, i int, c trace.Column, field string) {
	entries, info, err := tab.read(t, tab.with(i, field), false)
	text := slices.Contains(anyText, c.Name) || slices.Contains(anyText, tab.format.Name+":"+c.Name)
	switch {
	case err != nil:
		if c.Set == nil {
			t.Fatalf("a column that is not used: %v", err)
		}
		var e *trace.Error
		if !errors.As(err, &e) || e.Line != 1+strings.Count(tab.header, "\n") || e.Column != c.Name && !wholeRow[tab.format.Name+" "+c.Name+" "+field] || e.Want == "" {
			t.Fatalf("an error that does not tell line and column: %v", err)
		}
		skipped(t, tab, i, field)
	case field == "" && c.Set != nil:
		want := trace.EmptyFields{Column: c.Name, Means: c.Empty, Rows: 1}
		if c.Empty == "" || len(entries) != 1 || !slices.Contains(info.Empty, want) || !strings.Contains(strings.Join(info.Notes, ";"), c.Name+" in 1 ("+c.Empty+")") {
			t.Fatalf("%d jobs, told %+v %q, declared %+v", len(entries), info.Empty, info.Notes, c)
		}
		alone(t, tab, i)
	case c.Set != nil && !text && mayBe[tab.format.Name+" "+c.Name+" "+field] == "":
		t.Fatalf("is taken for %s", lines(t, entries))
	}
}

// skipped checks that a row with an error is counted, and that nothing of it is
// in the row after it.
func skipped(t *testing.T, tab *table, i int, field string) {
	whole, _, err := tab.read(t, tab.whole(), false)
	if err != nil {
		t.Fatal(err)
	}
	entries, info, err := tab.read(t, tab.with(i, field)+tab.whole(), true)
	if err != nil || info.Bad != 1 || len(entries) != 1 {
		t.Fatalf("%d jobs and %d bad rows, %v; want one each", len(entries), info.Bad, err)
	}
	if have, want := settled(t, entries)[0], settled(t, whole)[0]; have != want {
		t.Errorf("behind a bad row:\n have %s\n want %s", have, want)
	}
}

// alone checks that an empty field is read as if there were no row before it.
func alone(t *testing.T, tab *table, i int) {
	want, _, err := tab.read(t, tab.with(i, ""), false)
	if err != nil {
		t.Fatal(err)
	}
	both, _, err := tab.read(t, tab.whole()+tab.with(i, ""), false)
	if err != nil || len(both) != 2 {
		t.Fatalf("%d jobs, %v", len(both), err)
	}
	if have, want := settled(t, both), settled(t, want)[0]; !slices.Contains(have, want) {
		t.Errorf("beside another row:\n have %s\n want %s", strings.Join(have, "\n      "), want)
	}
}

// settled writes jobs without their numbers and when they were submitted.
func settled(t *testing.T, entries []trace.Entry) []string {
	t.Helper()
	for i := range entries {
		j := &entries[i].Job
		if j.Deadline > 0 {
			j.Deadline -= j.Submit
		}
		if j.Hints != nil {
			h := *j.Hints
			for k := range h.Worth {
				h.Worth[k].By = 0
			}
			j.Hints = &h
		}
		j.ID, j.Submit = 0, 0
		if j.Key == "0" || j.Key == "1" {
			j.Key = "the number of the row"
		}
	}
	return lines(t, entries)
}

// mutateField puts a value in place of a field and reads the file: the error tells
// the line and the column, or the reader tells what it assumed.
func mutateField(t *testing.T, format, text, column string, line int, fine func(e trace.Entry, info trace.Info) bool) {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "f", trace.Options{Format: format})
	if err != nil {
		var e *trace.Error
		if !errors.As(err, &e) || e.Line != line || !strings.EqualFold(e.Column, column) || e.Want == "" {
			t.Errorf("%s: an error that does not tell line %d and column: %v", text, line, err)
		}
		return
	}
	entries, info := drain(t, r)
	if len(entries) != 1 || !fine(entries[0], info) {
		t.Errorf("%s: is taken for %s, told %+v", text, lines(t, entries), info.Empty)
	}
}

// TestSacctMutations does so for the columns of sacct that are used: those that
// must be there are refused, others are assumed and told.
func TestSacctMutations(t *testing.T) {
	names := strings.Fields("JobID JobName User Account Partition Submit Eligible Start ElapsedRaw State AllocTRES ReqTRES AllocCPUS ReqMem NNodes Timelimit Priority QOS")
	row := strings.Split("7|n|u|a|p|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T08:05:00|60|COMPLETED|cpu=4,gres/gpu=2,node=1|cpu=4|4|16G|1|1-00:00:00|7|normal", "|")
	text := strings.Fields("JobID JobName User Account Partition QOS")
	mayBe := map[string]bool{"Priority 1e30": true}
	for i, name := range names {
		for _, m := range append(mutants, struct{ kind, field string }{"not known", "Unknown"}) {
			if i == 0 && m.field != "" { // a name, and one with a minus is one, too
				continue
			}
			changed := slices.Clone(row)
			changed[i] = m.field
			file := strings.Join(names, "|") + "\n" + strings.Join(changed, "|") + "\n"
			if name == "State" { // nobody knows all of them: TestSacctStates
				continue
			}
			mutateField(t, "sacct", file, name, 2, func(_ trace.Entry, info trace.Info) bool {
				told := slices.ContainsFunc(info.Empty, func(e trace.EmptyFields) bool { return e.Column == name && e.Rows == 1 })
				return told || slices.Contains(text, name) || mayBe[name+" "+m.field]
			})
		}
	}
}

// TestJSONMutations does so for the fields of Norn's JSON Lines.
func TestJSONMutations(t *testing.T) {
	const head = `{"norn":"trace","version":1}` + "\n"
	text := strings.Fields("job name user tenant partition model backbone dataset unit app types group qos sensitivity adapts plan pattern")
	mayBe := map[string]bool{"priority -1": true, "retries -1": true, "rank -1": true, "rank 1e30": true}
	whole := map[string]string{
		"submit": "5", "work": "60", "wait": "1", "deadline": "70", "estimate": "60", "batch": "8", "units": "9", "priority": "1", "retries": "1",
		"kind": `"training"`, "stop": `"freeze"`, "resize": `"in-place"`, "tier": `"standard"`, "outcome": `"failed"`, "at_least": "true", "share": "true", "true_gpu_mem": "5", "attempts": "[1]", "gpus": "2",
	}
	hints := strings.Fields("user_estimate group_estimate group_gpu_estimate iteration speed gpu_use memory_use host_use cpu_use gpu_mem weight cpu_time cpu_estimate cpus cpu_mem mixed sensitive rank")
	values := []string{`""`, "null", "-1", `"NaN"`, "NaN", "1e30", `"abc"`, `"2017-13-45"`, "1e400", "[]", "{}"}
	check := func(name, value, line string) {
		mutateField(t, "jsonl", head+line+"\n", name, 2, func(trace.Entry, trace.Info) bool {
			return mayBe[name+" "+value] || slices.Contains(text, name) || value == "[]" && name == "attempts" || value == `""` && (name == "kind" || name == "outcome" || name == "stop" || name == "resize" || name == "tier")
		})
	}
	for name := range whole {
		for _, value := range values {
			line := `{"job":"a","gpus":2,"work":60,"` + name + `":` + value + "}"
			if name == "gpus" {
				line = `{"job":"a","work":60,"gpus":` + value + "}"
			}
			check(name, value, line)
		}
	}
	for _, name := range hints {
		for _, value := range values {
			check(name, value, `{"job":"a","gpus":2,"work":60,"hints":{"`+name+`":`+value+"}}")
		}
	}
	for _, name := range text[:10] {
		for _, value := range []string{"-1", "1e30", "null", "[]"} {
			check(name, value, `{"gpus":2,"work":60,"`+name+`":`+value+"}")
		}
	}
	for _, value := range values {
		check("weight", "0", `{"job":"a","gpus":2,"work":60,"hints":{"weight":0}}`)
		if value == "-1" {
			continue // the role as a whole tells
		}
		check("tasks", value, `{"job":"a","work":60,"roles":[{"gpu":1,"tasks":`+value+"}]}")
	}
	mutateField(t, "jsonl", head+`{"job":"a","gpus":2}`+"\n", "work", 2, func(e trace.Entry, info trace.Info) bool {
		return slices.Equal(info.Empty, []trace.EmptyFields{{Column: "work", Means: "0 s", Rows: 1}})
	})
}

// TestAlloxMutations does so for the numbers of AlloX: the error tells the line.
func TestAlloxMutations(t *testing.T) {
	lines := [][]string{strings.Fields("1 7 1 3 queue0"), strings.Fields("stage -1.0 32.0 14.0 97.0 1.0 2.0 50.0 1 -0.5 0.1")}
	free := map[string]bool{"1/1": true, "1/2": true, "1/4": true, "2/0": true, "2/1": true} // names, and what is not used
	for at := range lines {
		for i := range lines[at] {
			for _, m := range mutants[1:5] { // a field cannot be empty or hold a space
				changed := slices.Clone(lines[at])
				changed[i] = m.field
				file := [2]string{strings.Join(lines[0], " "), strings.Join(lines[1], " ")}
				file[at] = strings.Join(changed, " ")
				place := fmt.Sprintf("%d/%d", at+1, i)
				r, err := trace.NewReader(strings.NewReader("# 0\n"+file[0]+"\n"+file[1]+"\n0\n"), "f", trace.Options{Format: "allox"})
				switch {
				case err == nil:
					if drain(t, r); !free[place] && !(m.field == "-1" && i > 8) {
						t.Errorf("%s is taken for a good field %s", m.field, place)
					}
				case !strings.Contains(err.Error(), fmt.Sprintf("line %d", at+2)) || free[place]:
					t.Errorf("%s for field %s: %v", m.field, place, err)
				}
			}
		}
	}
}

// TestPodMutations does so for what is used of a pod: the error names the pod or its
// place in the list.
func TestPodMutations(t *testing.T) {
	whole := podList(podOf("p", "", gpu1, "Succeeded", 0, 1, 2))
	for name, old := range map[string]string{
		"created": `"creationTimestamp":"2024-03-01T08:00:00Z"`, "started": `"startedAt":"2024-03-01T08:01:00Z"`, "finished": `"finishedAt":"2024-03-01T08:02:00Z"`,
		"gpus": `"nvidia.com/gpu":"1"`, "cpu": `"cpu":"500m"`, "memory": `"memory":"16Gi"`, "phase": `"phase":"Succeeded"`, "priority": `"priority":5`,
	} {
		key, _, _ := strings.Cut(old, `":`)
		for _, m := range mutants {
			value := `":"` + m.field + `"`
			if name == "priority" {
				value = `":` + cmp.Or(m.field, "[]")
			}
			if !strings.Contains(whole, old) {
				t.Fatalf("the pod has no %s", old)
			}
			if name == "priority" && m.field == "-1" || name == "phase" && m.field == "" {
				continue // a class below all others; a pod that nobody has looked at
			}
			r, err := trace.NewReader(strings.NewReader(strings.Replace(whole, old, key+value, 1)), "f", trace.Options{Format: "pods"})
			if err == nil {
				entries, info := drain(t, r)
				t.Errorf("%s %q is taken for %s, %+v", name, m.field, lines(t, entries), info.Problems)
			} else if !strings.Contains(err.Error(), "team-a/p") && !strings.Contains(err.Error(), "item 1") && name != "priority" {
				t.Errorf("%s %q: %v", name, m.field, err)
			}
		}
	}
}
