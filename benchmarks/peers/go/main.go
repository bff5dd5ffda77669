// Franz-go's kmsg over a file of records: see benchmarks/peers/README.md.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type raw struct {
	key, value []byte // value is nil for a tombstone
}

type commit struct {
	key       kmsg.OffsetCommitKey
	value     kmsg.OffsetCommitValue
	tombstone bool
}

type group struct {
	key       kmsg.GroupMetadataKey
	value     kmsg.GroupMetadataValue
	tombstone bool
}

type sink struct {
	commits []commit
	groups  []group
	keep    bool
}

func load(path string) []raw {
	data, err := os.ReadFile(path)
	check(err)
	var records []raw
	piece := func() []byte {
		size := int32(binary.LittleEndian.Uint32(data))
		data = data[4:]
		if size < 0 {
			return nil
		}
		bytes := data[:size:size]
		data = data[size:]
		return bytes
	}
	for len(data) > 0 {
		key := piece()
		records = append(records, raw{key, piece()})
	}
	return records
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// pass decodes every record of a kind that kmsg has, and says how many those are. The same is
// written out for each kind of message: behind an interface, every one would be put on the heap.
func pass(records []raw, unsafe bool, into *sink) int {
	read := 0
	for _, record := range records {
		switch kind := int16(binary.BigEndian.Uint16(record.key)); {
		case kind <= 1:
			var one commit
			if unsafe {
				check(one.key.UnsafeReadFrom(record.key))
			} else {
				check(one.key.ReadFrom(record.key))
			}
			if record.value == nil {
				one.tombstone = true
			} else if unsafe {
				check(one.value.UnsafeReadFrom(record.value))
			} else {
				check(one.value.ReadFrom(record.value))
			}
			if into.keep {
				into.commits = append(into.commits, one)
			} else {
				into.commits[0] = one
			}
			read++
		case kind == 2:
			var one group
			if unsafe {
				check(one.key.UnsafeReadFrom(record.key))
			} else {
				check(one.key.ReadFrom(record.key))
			}
			if record.value == nil {
				one.tombstone = true
			} else if unsafe {
				check(one.value.UnsafeReadFrom(record.value))
			} else {
				check(one.value.ReadFrom(record.value))
			}
			if into.keep {
				into.groups = append(into.groups, one)
			} else {
				into.groups[0] = one
			}
			read++
		}
	}
	return read
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func peak() int {
	file, err := os.Open("/proc/self/status")
	check(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			check(err)
			return kib
		}
	}
	return 0
}

func main() {
	runtime.GOMAXPROCS(1)
	records := load(os.Args[1])
	mode := os.Args[2]
	passes, err := strconv.Atoi(os.Args[3])
	check(err)
	best, read := -1.0, 0
	for range passes {
		runtime.GC()
		start := cpu()
		into := &sink{keep: mode != "dropped"}
		if into.keep { // room for all at once, as who knows how many there are would make it
			into.commits = make([]commit, 0, len(records))
		} else {
			into.commits, into.groups = make([]commit, 1), make([]group, 1)
		}
		read = pass(records, mode == "nocopy", into)
		if took := cpu() - start; best < 0 || took < best {
			best = took
		}
		runtime.KeepAlive(into)
	}
	runtime.KeepAlive(records)
	answer, err := json.Marshal(map[string]any{"seconds": best, "read": read, "peak_kib": peak()})
	check(err)
	fmt.Println(string(answer))
}
