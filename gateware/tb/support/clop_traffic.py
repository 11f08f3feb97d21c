# SPDX-License-Identifier: SHL-2.1
"""Traffic generators for clop and the receive path: MGP packets of whole bursts, sound or hostile."""

import mgp
import reference_mgp


def traffic(rng, frames, first=0, sequences=None, room=(40, 1400), packets=(1, 1, 2, 3), burst=0):
    """Return packets of whole frames: per board, a list of payloads in order."""
    sequences = sequences if sequences is not None else [1, 1, 1, 1]
    out = []
    for frame in range(first, first + frames):
        for board in range(4):
            count = rng.choice(packets)
            for index in range(count):
                flags = rng.choice([0, 0, reference_mgp.TRUNCATED, reference_mgp.FIXED])
                size = rng.choice(room)
                data = mgp.packet(
                    rng,
                    board,
                    frame,
                    sequences[board],
                    index,
                    index == count - 1,
                    24,
                    flags,
                    burst,
                    room=size,
                )
                sequences[board] += 1
                out.append(data)
    return out


def hostile(rng, bursts=3, blocks=6, frames=2):
    """Return packets of some bursts with all slow-path cases; the model can predict the sound ones only."""
    sent, before = [], []
    for burst in range(bursts):
        number, sequences = 253 + burst & 255, [1, 1, 1, 1]
        if burst == 1:  # joined in the middle, without SOB
            first = 700
        else:
            first = 0
            sent += [mgp.marker(board, reference_mgp.SOB, burst=number) for board in range(4)]
        frame = first
        for _ in range(blocks):
            packets = traffic(rng, frames, frame, sequences, packets=(1, 2, 3, 4), burst=number)
            frame += frames
            if rng.random() < 0.3:
                rng.shuffle(packets)
            for data in packets:
                if rng.random() < 0.04:
                    continue
                sent.append(data)
                way, board = rng.random(), rng.randrange(4)
                if way < 0.04:
                    sent.append(data)
                elif way < 0.08:
                    sent.append(mgp.broken(rng, board))
                elif way < 0.11:
                    sent.append(rng.choice(sent))
                elif way < 0.13:
                    sent.append(data[:15] + bytes([number + rng.choice([-3, 5, 100, 200]) & 255]))
                elif way < 0.15:
                    sent.append(mgp.packet(rng, board, frame + 2000, sequences[board] + 50, burst=number))
                elif way < 0.17:
                    sent.append(mgp.packet(rng, board, frame, sequences[board] + 5000, burst=number))
                elif way < 0.18:
                    sent.append(mgp.marker(board, reference_mgp.SOB, burst=number))
                    if rng.random() < 0.6:
                        sequences[board] = 1
                elif way < 0.2 and before:
                    sent.append(rng.choice(before))
            if rng.random() < 0.2:  # confirmed jump
                frame += rng.choice([0, 1500])
                sequences = [number + 6000 for number in sequences]
        before = sent[-40:]
        for board in range(4):
            if burst != 1 or board < 2:  # some boards omit their EOB
                sent.append(mgp.marker(board, reference_mgp.EOB, frame - 1, sequences[board], number))
    return [bytes(data) for data in sent]
