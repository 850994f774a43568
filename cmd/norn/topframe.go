package main

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

// look is how a line stands out.
type look uint8

const (
	plain  look = iota
	strong      // headings
	faint       // what is of little weight
	alarm       // what is wrong
	picked      // the selected job
)

// topLine is one line of the screen.
type topLine struct {
	text string
	look look
}

// frame draws the view: height lines of at most width cells. Height 0 is as many
// lines as there are.
func (v *topView) frame(width, height int) []topLine {
	lines := v.header(width)
	v.width = width
	if height == 0 {
		lines = append(lines, v.tables(width, 1<<20)...)
		return v.cut(lines, width)
	}
	body := max(0, height-len(lines)-1)
	if v.panel != nil {
		lines = append(lines, v.panel.draw(body)...)
	} else {
		lines = append(lines, v.tables(width, body)...)
	}
	for len(lines) < height-1 {
		lines = append(lines, topLine{})
	}
	lines = append(lines[:max(0, height-1)], v.footer())
	return v.cut(lines, width)
}

// page is how many lines of a panel are shown.
func (v *topView) page(width, height int) int { return max(1, height-len(v.header(width))-2) }

// inASCII are the characters that stand for ours on a terminal without UTF-8.
var inASCII = strings.NewReplacer("█", "#", "░", ".", "…", "~", "°", " ")

// cut makes lines fit the width, and the selected one fill it.
func (v *topView) cut(lines []topLine, width int) []topLine {
	for i, l := range lines {
		l.text = grid.Cut(l.text, width)
		if v.ascii {
			l.text = inASCII.Replace(l.text)
		}
		if l.look == picked {
			l.text += strings.Repeat(" ", max(0, width-grid.Cells(l.text)))
		}
		lines[i] = l
	}
	return lines
}

// header tells of the whole.
func (v *topView) header(width int) []topLine {
	left := grid.Clean(fmt.Sprintf("norn %s  %s", v.node.Name, v.status.Policy))
	right := v.now.Format("15:04:05")
	if !v.status.Up.IsZero() {
		right = "up " + span(v.now.Sub(v.status.Up)) + "  " + right
	}
	left = grid.Cut(left, max(0, width-grid.Cells(right)-2))
	pad := strings.Repeat(" ", max(1, width-grid.Cells(left)-grid.Cells(right)))
	lines := []topLine{{left + pad + right, strong}}
	if v.ready {
		lines = append(lines, topLine{tally(v.status), plain}, topLine{v.holdings(), plain})
	}
	trouble := append([]string(nil), v.status.Trouble...)
	if v.node.Health == "drained" {
		trouble = append([]string{joined("drained: the machine takes no new work", v.node.Note)}, trouble...)
	}
	const most = 2
	for i, t := range trouble {
		if i == most-1 && len(trouble) > most {
			lines = append(lines, topLine{fmt.Sprintf("! and %d more troubles: norn status tells all", len(trouble)-i), alarm})
			break
		}
		lines = append(lines, topLine{"! " + grid.Clean(t), alarm})
	}
	if v.broken != "" {
		lines = append(lines, topLine{"! no news: " + grid.Clean(v.broken), alarm})
	}
	return append(lines, topLine{})
}

// holdings are what of the machine or the cluster is held.
func (v *topView) holdings() string {
	n := v.node
	parts := []string{}
	if len(n.Devices) > 0 {
		parts = append(parts, fmt.Sprintf("devices %d/%d", allocatedDevices(n), len(n.Devices)))
	}
	if len(v.nodes) > 0 {
		parts = append(parts, unit.Count(len(v.nodes), "node"), fmt.Sprintf("GPUs %s/%s", trimmed(n.GPUsAllocated), trimmed(n.GPUs)))
	}
	parts = append(parts, fmt.Sprintf("CPUs %s/%s", trimmed(n.CPUsAllocated), trimmed(n.CPUs)), fmt.Sprintf("memory %s/%s", memory(n.MemAllocated), memory(n.Memory)))
	if n.Disk.Size > 0 {
		parts = append(parts, "disk "+memory(n.Disk.Free)+" free")
	}
	return strings.Join(parts, "   ")
}

// footer says which keys there are, or what they did.
func (v *topView) footer() topLine {
	switch {
	case v.asking != "":
		return topLine{fmt.Sprintf("%s job %s%s? y: yes, any other key: no", v.asking, v.chosen, grid.Clean(v.nameOf(v.chosen))), alarm}
	case v.note != "":
		return topLine{grid.Clean(v.note), strong}
	case v.panel != nil:
		return topLine{"esc back   up/down scroll   g/G begin/end", faint}
	}
	return topLine{"q quit  up/down select  w why  l logs  c cancel  h hold  r release  ? help", faint}
}

func (v *topView) nameOf(id string) string {
	for _, j := range v.all() {
		if j.ID == id {
			return titled(j)
		}
	}
	return ""
}

// draw is the panel in so many lines.
func (p *topPanel) draw(height int) []topLine {
	rows := max(0, height-1)
	from := min(max(0, p.from), max(0, len(p.lines)-rows))
	if p.end {
		from = max(0, len(p.lines)-rows)
	}
	title := p.title
	if len(p.lines) > rows {
		title += fmt.Sprintf(", lines %d to %d of %d", from+1, min(from+rows, len(p.lines)), len(p.lines))
	}
	lines := []topLine{{title, strong}}
	for _, text := range p.lines[from:min(from+rows, len(p.lines))] {
		lines = append(lines, topLine{text, plain})
	}
	return lines
}

// tables are the devices, the running jobs and the queue in so many lines.
func (v *topView) tables(width, height int) []topLine {
	if !v.ready {
		return nil
	}
	var lines []topLine
	if n := len(v.node.Devices); n > 0 {
		rows := min(n, max(2, height/3-2))
		lines = append(lines, v.devices(width, rows)...)
		lines = append(lines, topLine{})
	}
	if len(v.nodes) > 0 {
		lines = append(lines, v.nodeLines(width, max(2, height/3-2))...)
		lines = append(lines, topLine{})
	}
	runs, waits := shares(height-len(lines)-3, len(v.run), len(v.queue))
	lines = append(lines, v.section("RUNNING", "no job runs", v.run, runs, width, v.runningGrid)...)
	lines = append(lines, topLine{})
	lines = append(lines, v.section("WAITING", "no job waits", v.queue, waits, width, v.queueGrid)...)
	return lines[:min(len(lines), height)]
}

// maxTypes is how many GPU types the screen sums up.
const maxTypes = 4

// nodeLines are the sums by GPU type, and a page of the nodes, in so many lines.
func (v *topView) nodeLines(width, rows int) []topLine {
	var lines []topLine
	for i, text := range typeTable(v.nodes).Lines(width) {
		if i <= min(maxTypes, rows/2) {
			lines = append(lines, topLine{text, map[bool]look{true: strong}[i == 0]})
		}
	}
	v.rows = max(1, rows-len(lines)+1)
	v.from = max(0, min(v.from, len(v.nodes)-v.rows))
	shown := v.nodes[v.from:min(v.from+v.rows, len(v.nodes))]
	g := nodeTable(shown)
	if len(shown) < len(v.nodes) {
		g.Cols[0].Title = fmt.Sprintf("NODE %d to %d", v.from+1, v.from+len(shown))
	}
	for i, text := range g.Lines(width) {
		l := topLine{text, plain}
		switch {
		case i == 0:
			l.look = strong
		case shown[i-1].Health == "down" || shown[i-1].GPUsBroken > 0:
			l.look = alarm
		}
		lines = append(lines, l)
	}
	return lines
}

// shares divides lines between two tables: each gets what it needs if there is
// room, and a third at least if it needs that.
func shares(room, first, second int) (int, int) {
	room = max(0, room)
	if first+second <= room {
		return first, second
	}
	a := min(first, max(room-second, room-room/3))
	return a, min(second, room-a)
}

// section is one table of jobs, with the part of it that holds the selected one.
func (v *topView) section(title, none string, list []api.Job, rows, width int, table func([]api.Job, int) *grid.Table) []topLine {
	if len(list) == 0 {
		return []topLine{{none, faint}}
	}
	from := 0
	for i, j := range list {
		if j.ID == v.chosen {
			from = max(0, i-rows+1)
		}
	}
	shown := list[from:min(from+rows, len(list))]
	head := fmt.Sprintf("%s %d", title, len(list))
	if len(shown) < len(list) && len(shown) > 0 {
		head += fmt.Sprintf(" (%d to %d)", from+1, from+len(shown))
	}
	g := table(shown, width)
	g.Cols[1].Title = head
	var lines []topLine
	for i, text := range g.Lines(width) {
		switch {
		case i == 0:
			lines = append(lines, topLine{text, strong})
		case shown[i-1].ID == v.chosen:
			lines = append(lines, topLine{">" + strings.TrimPrefix(text, " "), picked})
		default:
			lines = append(lines, topLine{text, plain})
		}
	}
	return lines
}

// barOf is how wide bars are on a screen of some width.
func barOf(width int) int { return min(24, max(6, width/10)) }

// placesOf is where a job runs.
func placesOf(j api.Job) string {
	if len(j.Nodes) > 0 {
		return onNodes(j.Nodes)
	}
	return devices(j.Devices)
}

func (v *topView) runningGrid(list []api.Job, width int) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{}, {Least: 14}, {Title: "USER", Least: 4, Rank: 3}, {Title: "GPUS", Right: true}, {Title: "STATE", Bare: true},
		{Title: "PROGRESS", Rank: 6}, {Title: "RAN", Right: true, Rank: 2}, {Title: "LEFT", Right: true, Rank: 5, Bare: true},
		{Title: "ENDS", Rank: 1, Bare: true}, {Title: "DEVICES", Least: 6, Rank: 4, Bare: true},
	}}
	for _, j := range list {
		state := string(j.State)
		if j.State == api.Running {
			state = ""
		}
		g.Add(" ", j.ID+" "+jobName(j), j.User, gpuCount(j), state, v.progress(j, barOf(width)), span(j.Ran.Duration()), leftText(j, v.now), grid.Clock(j.ExpectEnd, v.now), placesOf(j))
	}
	return g
}

// progress is a bar of how far a job has come by its own word, or by the
// estimate.
func (v *topView) progress(j api.Job, width int) string {
	if part, known := done(j); known {
		return bar(part, width) + " " + percent(part)
	}
	d, known := left(j, v.now)
	if text := progressText(j); text != "" {
		return text
	}
	if !known || j.Ran <= 0 {
		return ""
	}
	part := float64(j.Ran) / (float64(j.Ran) + max(0, d.Seconds()))
	return bar(part, width) + " ~" + percent(part)
}

func (v *topView) queueGrid(list []api.Job, _ int) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{}, {Least: 14}, {Title: "USER", Least: 4, Rank: 3}, {Title: "GPUS", Right: true}, {Title: "WAITED", Right: true},
		{Title: "NEEDS", Right: true, Rank: 2, Bare: true}, {Title: "REASON", Least: 12},
	}}
	for _, j := range list {
		reason := j.Reason
		if reason == "" && j.State == api.Held {
			reason = "held"
		}
		g.Add(" ", j.ID+" "+jobName(j), j.User, gpuCount(j), span(j.Wait.Duration()), leftText(j, v.now), reason)
	}
	return g
}

// devices is the table of devices, so many of them.
func (v *topView) devices(width, rows int) []topLine {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "DEVICE"}, {Title: "TYPE", Least: 6, Rank: 3}, {Title: "UTIL", Bare: true}, {Title: "MEMORY", Bare: true},
		{Title: "TEMP", Right: true, Rank: 2, Bare: true}, {Title: "POWER", Right: true, Rank: 1, Bare: true}, {Title: "JOBS", Least: 20},
	}}
	names := map[string]string{}
	for _, j := range v.run {
		names[j.ID] = j.ID + " " + jobName(j)
	}
	wide := barOf(width)
	for _, d := range v.node.Devices[:rows] {
		util, mem, temp, power := "", "", "", ""
		if d.Measured {
			util = bar(d.Util, wide) + fmt.Sprintf(" %4s", percent(d.Util))
			mem = memory(d.Used) + "/" + memory(d.Memory)
			if d.Memory > 0 {
				mem = bar(float64(d.Used)/float64(d.Memory), wide) + " " + mem
			}
			temp, power = fmt.Sprintf("%.0f°C", d.Celsius), fmt.Sprintf("%.0fW", d.Watts)
		}
		g.Add(d.Name, d.Type, util, mem, temp, power, holders(d, names))
	}
	var lines []topLine
	for i, text := range g.Lines(width) {
		l := plain
		switch {
		case i == 0:
			l = strong
		case v.node.Devices[i-1].Broken:
			l = alarm
		}
		lines = append(lines, topLine{text, l})
	}
	if more := len(v.node.Devices) - rows; more > 0 {
		lines = append(lines, topLine{fmt.Sprintf("and %s more: norn status lists all", unit.CountOrNo(more, "device")), faint})
	}
	return lines
}

// holders says who holds a device, or what is wrong with it.
func holders(d api.Device, names map[string]string) string {
	var parts []string
	for _, id := range d.Jobs {
		if names[id] == "" {
			parts = append(parts, id) // of somebody else
			continue
		}
		parts = append(parts, names[id])
	}
	text := strings.Join(parts, ", ")
	switch {
	case d.Broken && text != "":
		return text + "; " + joined("takes no new work", d.Note)
	case d.Broken:
		return joined("takes no new work", d.Note)
	case text == "":
		text = "free"
	}
	if slow := d.SlowText(); slow != "" {
		text += "; " + slow
	}
	return text
}

// bar draws a share.
func bar(part float64, width int) string {
	n := min(width, max(0, int(part*float64(width)+0.5)))
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}
