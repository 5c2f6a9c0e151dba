"""Reads annotations in the formats of other tools (COCO JSON, VOC, CityPersons, YOLO, CVAT, Labelme) and packs their data sets."""
