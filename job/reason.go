package job

import (
	"cmp"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Reason says why a job waits, or why it was stopped. It is small and costs
// nothing to make; String turns it into a sentence for a reader.
type Reason struct {
	Code ReasonCode
	Need int32         // GPUs, nodes or thousandths, as the code says
	Have int32         // as the code says
	Job  ID            // the other job, where the code names one
	At   time.Duration // a moment, where the code names one; 0 otherwise
	Text string        // for Because: the policy's own words; for NeedSlots: the name; for NeedTasks: the GPUs of each; for NeedWhere, NeedWithin and NoSuchNode what their sentences say. For Refused: why; for NoSuchType, TooLarge, Impossible, OnHold and the reasons to be stopped: the world's, in place of ours
}

// ReasonCode tells apart the reasons.
type ReasonCode uint8

// Reasons to wait.
const (
	NoReason      ReasonCode = iota
	NeedGPUs                 // Need GPUs, Have are free
	NeedOneNode              // Need GPUs of one node, the best node has Have free
	NeedWholeNode            // Need wholly free nodes, there are Have
	NeedRack                 // Need GPUs of one rack, the best rack has Have free
	NeedCPU                  // GPUs would do, but CPU or memory beside them is short
	NeedSlots                // the same of the counted resource that Text names
	NeedPart                 // Need milli of one GPU, no GPU has that much left
	NeedTasks                // its Need tasks need GPUs of one node each, as many as Text says; there is room for Have
	NeedWhere                // Need GPUs of the nodes that it may use, which have Have free; Text is the condition
	NeedWithin               // Need GPUs in one place, the best has Have free; Text is the level
	TooLarge                 // Need GPUs, the pool has Have in all: can never run
	NoSuchNode               // no node is one that it may use, as Text says: can never run
	NoSuchType               // no node has an acceptable GPU type: can never run
	Impossible               // it would not fit even if nothing else ran
	OverLimit                // Need GPUs, its tenant may never have more than Have: can never run
	Refused                  // the policy did not admit it, since its deadline cannot be met, as Text says: it never runs
	Behind                   // job Job goes first and blocks the queue
	Outranked                // jobs of higher priority take the GPUs
	Quota                    // the tenant has Have of the Need GPUs it may have
	OverShare                // the tenant has Have, its share is Need, and no others are free
	Reserved                 // it would delay job Job, which has a reservation for At
	NotYet                   // the policy decides again at At
	OnHold                   // the user or an operator holds it
	Occupied                 // it was frozen, and others have the devices on which its memory stays
	Because                  // see Text
	// Reasons to be stopped.
	MakesRoom   // for job Job, which goes first
	UsedShare   // it has used its share for now: Need GPU-seconds
	Reclaimed   // another tenant takes back what it is guaranteed
	Moved       // to better GPUs
	Resized     // to Need tasks
	NodeLost    // a node it ran on was lost
	Failed      // the attempt failed
	Ended       // the job has ended
	UserRequest // the user asked for it
	OutOfMemory // the memory of GPU Need ran out
	Profiled    // it has been measured
	Cancelling  // somebody has cancelled it, and it has still to end
	AfterJob    // to be held: it comes after others that have still to end
	InTurn      // to be held: others of its user, tenant or array have to end first, by the quotas
	TakenBack   // the owner of node Need takes it back; of the event recall: lender Text wants Need nodes by At
	Sleeps      // of a change of the power of node Need: it was idle, or it is needed again
	lastReason
)

var reasonNames = [lastReason]string{
	"none", "need-gpus", "need-one-node", "need-whole-nodes", "need-rack", "need-cpu", "need-slots", "need-part", "need-tasks", "need-where", "need-within", "too-large", "no-such-node", "no-such-type", "impossible", "over-limit", "refused",
	"behind", "outranked", "quota", "over-share", "reserved", "not-yet", "on-hold", "occupied", "because",
	"makes-room", "used-share", "reclaimed", "moved", "resized", "node-lost", "failed", "ended", "user-request", "out-of-memory", "profiled", "cancelling", "after-job", "in-turn", "taken-back", "sleeps",
}

func (c ReasonCode) String() string {
	if int(c) < len(reasonNames) {
		return reasonNames[c]
	}
	return fmt.Sprintf("reason-%d", uint8(c))
}

// ParseReasonCode reads the name of a reason.
func ParseReasonCode(s string) (ReasonCode, bool) {
	for i, name := range reasonNames {
		if name == s {
			return ReasonCode(i), true
		}
	}
	return NoReason, false
}

// Never tells whether a wait for this reason cannot end by itself.
func (r Reason) Never() bool {
	switch r.Code {
	case TooLarge, NoSuchNode, NoSuchType, Impossible, OverLimit, Refused:
		return true
	}
	return false
}

// Fragmentation tells whether enough GPUs exist but not where they are wanted.
func (r Reason) Fragmentation() bool {
	switch r.Code {
	case NeedOneNode, NeedWholeNode, NeedRack, NeedCPU, NeedSlots, NeedPart, NeedTasks, NeedWithin:
		return true
	}
	return false
}

// Promises tells whether At is when the job is expected to fit.
func (r Reason) Promises() bool { return r.At > 0 && r.Code >= NeedGPUs && r.Code <= NeedWithin }

// Sentence says the reason. name turns a job number into what the reader
// knows the job by.
func (r Reason) Sentence(name func(ID) string) string {
	if r.Promises() {
		at := r.At
		r.At = 0
		return r.Sentence(name) + "; expected to fit at " + unit.Human(at)
	}
	switch r.Code {
	case NeedGPUs:
		return fmt.Sprintf("needs %s; %d free", unit.Count(int(r.Need), "GPU"), r.Have)
	case NeedOneNode:
		return fmt.Sprintf("needs %s of one node; the best node has %d free", unit.Count(int(r.Need), "GPU"), r.Have)
	case NeedWholeNode:
		return fmt.Sprintf("needs %s wholly free; there are %d", unit.Count(int(r.Need), "node"), r.Have)
	case NeedRack:
		return fmt.Sprintf("needs %s of one rack; the best rack has %d free", unit.Count(int(r.Need), "GPU"), r.Have)
	case NeedCPU:
		return "GPUs would do, but the CPU or memory beside them is short"
	case NeedSlots:
		return "GPUs would do, but their nodes are short of " + cmp.Or(r.Text, "something else")
	case NeedPart:
		return fmt.Sprintf("needs %v of one GPU; no GPU has that much left", unit.Milli(r.Need))
	case NeedTasks:
		return fmt.Sprintf("each of its %s needs %s of one node; there is room for %d", unit.Count(int(r.Need), "task"), cmp.Or(r.Text, "several GPUs"), r.Have)
	case NeedWhere:
		return fmt.Sprintf("needs %s of the nodes that it may use%s; they have %d free", unit.Count(int(r.Need), "GPU"), condition(r.Text), r.Have)
	case NeedWithin:
		return fmt.Sprintf("needs %s in one %s; the best has %d free", unit.Count(int(r.Need), "GPU"), cmp.Or(r.Text, "place"), r.Have)
	case NoSuchNode:
		return cmp.Or(r.Text, "it may use no node") + ": it can never run here"
	case TooLarge:
		if r.Text != "" {
			return r.Text
		}
		return fmt.Sprintf("needs %s but there are only %d in all: it can never run here", unit.Count(int(r.Need), "GPU"), r.Have)
	case NoSuchType:
		if r.Text != "" {
			return r.Text
		}
		return "no node has a GPU of a type, and with the memory, that it needs: it can never run here"
	case Impossible:
		return cmp.Or(r.Text, "would not fit, as it must be placed, even if nothing else ran: it can never run here")
	case OverLimit:
		return fmt.Sprintf("needs %s but its tenant may hold at most %d: it can never run here", unit.Count(int(r.Need), "GPU"), r.Have)
	case Refused:
		return "was refused: " + cmp.Or(r.Text, "its deadline cannot be met")
	case Behind:
		return "waits behind job " + name(r.Job) + ", which goes first"
	case Outranked:
		return "jobs of higher priority take the GPUs"
	case Quota:
		return fmt.Sprintf("its tenant holds %d of the %d GPUs that it may hold", r.Have, r.Need)
	case OverShare:
		return fmt.Sprintf("its tenant holds %s of its share of %d, and too few of others are free", unit.Count(int(r.Have), "GPU"), r.Need)
	case Reserved:
		return fmt.Sprintf("would delay job %s, which is to start at %s", name(r.Job), unit.Human(r.At))
	case NotYet:
		return "the next decision is at " + unit.Human(r.At)
	case OnHold:
		if r.Text != "" {
			return r.Text
		}
		return "is held"
	case Occupied:
		if r.Text != "" {
			return r.Text
		}
		return "was frozen, and others hold the GPUs on which its memory stays"
	case Because:
		return r.Text
	}
	if r.Text != "" && r.Code != NoReason {
		return r.Text
	}
	return r.stopSentence(name)
}

// condition is a condition on nodes in parentheses, or nothing.
func condition(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func (r Reason) stopSentence(name func(ID) string) string {
	switch r.Code {
	case MakesRoom:
		if r.Job == None {
			return "makes room for jobs of higher priority"
		}
		return "makes room for job " + name(r.Job) + ", which goes first"
	case UsedShare:
		return fmt.Sprintf("has used its share of %d GPU-seconds for now", r.Need)
	case Reclaimed:
		return "another tenant takes back what it is guaranteed"
	case Moved:
		return "moves to better GPUs"
	case Resized:
		return fmt.Sprintf("is resized to %s", unit.Count(int(r.Need), "task"))
	case NodeLost:
		return "a node it ran on was lost"
	case Failed:
		return "the attempt failed"
	case Ended:
		return "has ended"
	case UserRequest:
		return "the user asked for it"
	case OutOfMemory:
		return "the memory of its GPU did not suffice for all that ran there"
	case Profiled:
		return "has been measured"
	case Cancelling:
		return "is being cancelled"
	case AfterJob:
		return "waits for the end of other jobs"
	case InTurn:
		return "waits until others of its user, tenant or array end"
	case TakenBack:
		return "the owner of a node it ran on takes it back"
	case Sleeps:
		return "idle nodes sleep until they are needed"
	}
	return "no reason is known"
}

func (r Reason) String() string {
	return r.Sentence(func(id ID) string { return fmt.Sprint(int(id)) })
}
