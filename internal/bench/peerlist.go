package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nornPeer is norn by its commands.
type nornPeer struct {
	bin string
	box *box
}

func (p *nornPeer) name() string { return "norn" }

func (p *nornPeer) up(dir string) (err error) {
	p.box, err = newBox(p.bin, dir, "")
	return err
}

func (p *nornPeer) down() {
	if p.box != nil {
		p.box.discard()
	}
}

func (p *nornPeer) submit(shell string) []string {
	return []string{p.bin, "submit", "--server", p.box.socket(), "--", "sh", "-c", shell}
}

func (p *nornPeer) list() []string { return []string{p.bin, "ps", "--server", p.box.socket()} }

func (p *nornPeer) left() (int, error) {
	s, err := p.box.Status(context.Background())
	return s.Waiting + s.Running + s.Stopping + s.Held, err
}

// spooler is task-spooler, a queue without a daemon of its own to install.
type spooler struct{ bin, socket string }

func (p *spooler) name() string {
	for _, name := range []string{"tsp", "ts"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, _ := exec.Command(path, "-V").Output()
		if version, _, ok := strings.Cut(strings.TrimPrefix(string(out), "Task Spooler "), " "); ok && strings.HasPrefix(string(out), "Task Spooler") {
			p.bin = path
			return "task-spooler " + version
		}
	}
	return ""
}

// up sets the number of slots, which starts the server. A queued job keeps a
// connection.
func (p *spooler) up(dir string) error {
	p.socket = filepath.Join(dir, "ts.sock")
	return quiet(p.ts("-S", fmt.Sprint(slots)))
}

func (p *spooler) ts(args ...string) []string {
	return append([]string{"env", "TS_SOCKET=" + p.socket, "TS_MAXCONN=19000", "TS_MAXFINISHED=10", p.bin}, args...)
}

// down ends the server, and what ran, which goes on without it.
func (p *spooler) down() {
	list := p.ts()
	out, _ := exec.Command(list[0], list[1:]...).Output()
	kill := []string{"kill"}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "running" {
			ask := p.ts("-p", f[0])
			pid, _ := exec.Command(ask[0], ask[1:]...).Output()
			kill = append(kill, strings.TrimSpace(string(pid)))
		}
	}
	quiet(p.ts("-K"))
	if len(kill) > 1 {
		quiet(kill)
	}
}

func (p *spooler) submit(shell string) []string { return p.ts("-n", "sh", "-c", shell) }
func (p *spooler) list() []string               { return p.ts() }

func (p *spooler) left() (int, error) {
	return lines(p.list(), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 1 && (f[1] == "queued" || f[1] == "running")
	})
}

// slurm is Slurm on one node, without accounting, cgroups or munge.
type slurm struct {
	dir     string
	servers []*exec.Cmd
}

func (p *slurm) name() string {
	for _, name := range []string{"slurmctld", "slurmd", "sbatch", "squeue"} {
		if _, err := exec.LookPath(name); err != nil {
			return ""
		}
	}
	out, err := exec.Command("slurmctld", "-V").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// slurmConf has every default but for what makes it run alone on one node.
const slurmConf = `ClusterName=bench
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmctldPort=26817
SlurmdPort=26818
SlurmctldPidFile=DIR/ctld.pid
SlurmdPidFile=DIR/d.pid
SlurmdSpoolDir=DIR/spool
StateSaveLocation=DIR/saved
SlurmctldLogFile=DIR/ctld.log
SlurmdLogFile=DIR/d.log
SlurmdParameters=config_overrides
MaxJobCount=50000
NodeName=HOST NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

func (p *slurm) up(dir string) error {
	p.dir = dir
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("slurmd needs root")
	}
	host, _, _ = strings.Cut(host, ".")
	conf := strings.NewReplacer("HOST", host, "DIR", dir).Replace(slurmConf)
	if err := os.WriteFile(p.conf(), []byte(conf), 0o644); err != nil {
		return err
	}
	for _, sub := range []string{"spool", "saved"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"slurmctld", "-D", "-c", "-f", p.conf()}, {"slurmd", "-D", "-f", p.conf()}} {
		cmd := exec.Command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			return err
		}
		p.servers = append(p.servers, cmd)
	}
	return until("its node is idle", 30*time.Second, func() (bool, error) {
		out, err := exec.Command("env", "SLURM_CONF="+p.conf(), "sinfo", "-h", "-o", "%t").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle", nil
	})
}

func (p *slurm) conf() string { return filepath.Join(p.dir, "slurm.conf") }

func (p *slurm) down() {
	if p.servers == nil {
		return
	}
	quiet([]string{"env", "SLURM_CONF=" + p.conf(), "scancel", "--state=RUNNING", "--user=root"})
	time.Sleep(2 * time.Second)
	for _, s := range p.servers {
		s.Process.Kill()
		s.Wait()
	}
	p.servers = nil
}

func (p *slurm) submit(shell string) []string {
	return []string{"env", "SLURM_CONF=" + p.conf(), "sbatch", "-n1", "-o", "/dev/null", "--wrap", shell}
}

func (p *slurm) list() []string { return []string{"env", "SLURM_CONF=" + p.conf(), "squeue"} }

func (p *slurm) left() (int, error) {
	return lines([]string{"env", "SLURM_CONF=" + p.conf(), "squeue", "-h"}, func(string) bool { return true })
}
